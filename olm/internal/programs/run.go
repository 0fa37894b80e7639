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

// Start starts a program in a folder, where what it prints goes to NAME.log, and returns what ends it. It ends with the
// process that starts it in any case, on Linux. If it ends by itself, ended is told why.
func Start(dir, program string, args []string, ended func(error), env ...string) (stop func(), err error) {
	name := filepath.Base(program)
	log := filepath.Join(dir, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), env...), dir, out, out, bound
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

// tail is the last line of a file.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// Run runs a program in this process's place in the world, and returns what it printed as the error if it fails.
func Run(ctx context.Context, program string, args []string, env ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.SysProcAttr = env, bound
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// Kubeconfig writes a kubeconfig file into a folder, and returns its name.
func Kubeconfig(dir string, cfg *rest.Config) (string, error) {
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return "", err //nolint:wrapcheck // says what it was doing
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

// As is a configuration with the rights of a ServiceAccount, and if a pod is given as long as there is that.
func As(
	ctx context.Context, c client.Client, cfg *rest.Config, namespace, name string, pod *corev1.Pod,
) (*rest.Config, error) {
	token := &authenticationv1.TokenRequest{}
	if pod != nil {
		token.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	account := &corev1.ServiceAccount{}
	account.Name, account.Namespace = name, namespace
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("getting a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	as := rest.AnonymousClientConfig(cfg)
	as.BearerToken = token.Status.Token
	return as, nil
}
