package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// Start starts a program in a folder, with its output in NAME.log, and returns a function that stops it. On Linux the
// program always ends with its parent process. If it exits by itself, ended is called with the reason.
func Start(dir, program string, args []string, ended func(error), env ...string) (stop func(), err error) {
	name := filepath.Base(program)
	log := filepath.Join(dir, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = dir
	cmd.Stdout = out
	cmd.Stderr = out
	cmd.SysProcAttr = sysProcAttr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), out.Close())
	}
	var stopping atomic.Bool
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err := cmd.Wait()
		_ = out.Close()
		if !stopping.Load() {
			ended(fmt.Errorf("%s has ended by itself (%w); the last that it said: %s", name, cmp.Or(err, errDone), tail(log)))
		}
	}()
	return func() {
		stopping.Store(true)
		_ = cmd.Process.Kill()
		<-gone
	}, nil
}

var errDone = errors.New("without an error")

// tail returns the last line of a file.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// Run runs a program with this environment alone. If it fails, the error contains its output.
func Run(ctx context.Context, program string, args []string, env ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	cmd.SysProcAttr = sysProcAttr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// Kubeconfig writes a kubeconfig file into a folder, and returns its name.
func Kubeconfig(dir string, cfg *rest.Config) (string, error) {
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "kubeconfig")
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return f.Name(), nil
}

// Impersonate returns a configuration with the token of a ServiceAccount. If a pod is given, the token is bound to it.
func Impersonate(
	ctx context.Context, c client.Client, cfg *rest.Config, namespace, name string, pod *corev1.Pod,
) (*rest.Config, error) {
	token := &authenticationv1.TokenRequest{}
	if pod != nil {
		token.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	account := &corev1.ServiceAccount{}
	account.Name = name
	account.Namespace = namespace
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("getting a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	as := rest.AnonymousClientConfig(cfg)
	as.BearerToken = token.Status.Token
	return as, nil
}
