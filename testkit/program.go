package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// A Program is the command of an operator that runs as a process, in any language.
type Program struct {
	// Args are the program and its arguments, and Env further variables as KEY=value. {kubeconfig} and {namespace} stand for
	// the program's kubeconfig and the test's namespace, {port} and {port:NAME} for free TCP ports of the loopback interface.
	// The process has the variables KUBECONFIG, and NAMESPACE, POD_NAMESPACE and WATCH_NAMESPACE with the test's namespace.
	Args, Env []string
	// Dir is the working directory. Empty means that of the test.
	Dir string
}

// StartProgram is Start for an operator that is a program. It returns when the program has sent its first request and its
// watches are open, and fails the test if the program ends before, or sends no request within K.Timeout. Kill kills its
// process group; Stop sends SIGTERM, and kills it 10 s later. A program that ends by itself fails the test.
func (k *K) StartProgram(p Program, opts ...StartOption) *Instance {
	k.t.Helper()
	var o startOptions
	for _, opt := range opts {
		opt(&o)
	}
	op, err := k.startProgram(p, o)
	if err != nil {
		k.t.Fatalf("starting the operator: %v", err)
	}
	return op
}

func (k *K) startProgram(p Program, o startOptions) (*Instance, error) {
	if len(o.options) > 0 {
		return nil, errors.New("WithManagerOptions is for an operator in this process: leave it out")
	}
	op, cfg, err := k.prepare(o)
	if err != nil {
		return nil, err
	}
	dir, err := k.folder()
	if err != nil {
		return nil, err
	}
	startup := operatorproc.NewStartup()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observeStart(startup, next) })
	front, err := proxy.Start(context.WithoutCancel(k.Context()), proxy.Options{
		Target: withoutTransport(cfg), Namespace: k.Namespace, Wrap: cfg.WrapTransport,
	})
	if err != nil {
		return nil, err
	}
	command := operatorproc.Command{
		Args: p.Args, Env: append([]string{"TMPDIR=" + dir}, p.Env...), Dir: p.Dir, Namespace: k.Namespace,
		Kubeconfig: filepath.Join(dir, fmt.Sprintf("kubeconfig-%d", len(k.running)+1)),
	}
	if err := front.WriteKubeconfig(command.Kubeconfig, fmt.Sprintf("operator-%d", len(k.running)+1)); err != nil {
		front.Close()
		return nil, err
	}
	process, err := operatorproc.Start(command, func(l operatorproc.Line) { op.log.write(logLine{text: l.Text}) })
	if err != nil {
		front.Close()
		return nil, err
	}
	var end sync.Once
	op.cancel = func() {
		end.Do(func() {
			go func() { // wait bounds the end
				if op.killed {
					_ = process.Kill()
				} else {
					_ = process.Stop(stopTimeout)
				}
			}()
		})
	}
	go func() {
		<-process.Done()
		op.err = process.Err()
		front.Close()
		close(op.done)
	}()
	k.running = append(k.running, op)
	k.obs.record("%s starts", op)
	if err = startup.Wait(k.Context(), op.done, k.Timeout); errors.Is(err, operatorproc.ErrEnded) {
		return op, fmt.Errorf("running: %w", op.err)
	}
	return op, err
}

// Kubeconfig returns the path of a kubeconfig of an administrator, for programs that act as the user of the test, such as
// kubectl or a client in another language. Their requests are recorded as those of the test. Its default namespace is that
// of the test.
func (k *K) Kubeconfig() string {
	k.t.Helper()
	path, err := k.kubeconfig()
	if err != nil {
		k.t.Fatalf("writing a kubeconfig: %v", err)
	}
	return path
}

func (k *K) kubeconfig() (string, error) {
	dir, err := k.folder()
	if err != nil {
		return "", err
	}
	options := proxy.Options{Target: withoutTransport(k.Config), Namespace: k.Namespace}
	if k.obs != nil {
		options.Wrap = func(next http.RoundTripper) http.RoundTripper { return k.obs.user.Transport(0, next) }
	}
	front, err := proxy.Start(context.WithoutCancel(k.Context()), options)
	if err != nil {
		return "", err
	}
	k.t.Cleanup(front.Close)
	path := filepath.Join(dir, "kubeconfig")
	return path, front.WriteKubeconfig(path, "test")
}

// folder returns a folder for the files of the test's programs, which is removed after the test.
func (k *K) folder() (string, error) {
	if k.files != "" {
		return k.files, nil
	}
	dir, err := tempfolder.Make()
	if err != nil {
		return "", fmt.Errorf("making a folder for kubeconfigs: %w", err)
	}
	k.files = dir
	k.t.Cleanup(func() { _ = tempfolder.Remove(dir) })
	return dir, nil
}

func withoutTransport(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.WrapTransport = nil
	return cfg
}

// observeStart returns a transport for a program that starts.
func observeStart(startup *operatorproc.Startup, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if recorder.ParseRequest(req).Resource != "" { // not the discovery of an interpreter that still loads
			startup.NoteRequest()
		}
		resp, err := next.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusOK {
			// A watch may be held when the program exits. Without this, a reader of the body would wait forever.
			context.AfterFunc(req.Context(), func() { _ = resp.Body.Close() })
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
