package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Command is an operator that is a program in any language: a [Subject] with operating system processes, each behind a
// proxy of its own.
//
// The program may work in all namespaces: the interceptor hides the objects of other runs.
type Command struct {
	// Args holds the program and its arguments. Env holds additional variables. See [operatorproc.Command] for placeholders
	// in them and for the variables that every program gets.
	Args, Env []string
	// Folder is an existing directory. Each run has a subdirectory for kubeconfigs and, as TMPDIR, for temporary files that
	// a killed program leaves.
	Folder string
	// Target returns the client configuration that the proxy uses for the program in the namespace of s.
	Target func(s *space.Space) (*rest.Config, error)
	// Webhooks prepares the webhooks of the next process of a run. Optional.
	Webhooks func(s *space.Space) (Webhooks, error)
	// Timeout is the time until the first request of a program. Zero means 30 s.
	Timeout time.Duration
	// Grace is the time for a graceful stop. Zero means 10 s.
	Grace time.Duration

	sentRequest atomic.Bool // a process has sent a request
	hasServed   atomic.Bool // a process has served webhooks

	mu   sync.Mutex
	wide []string // resources that the program requested in all namespaces
}

const defaultGrace = 10 * time.Second

// A StartError reports that a program cannot be explored: it could not be started, or has never sent a request.
type StartError struct {
	// Ended is true if the program was started and has exited.
	Ended bool
	Err   error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// AllNamespaces returns the resources that the program listed or watched in all namespaces.
func (c *Command) AllNamespaces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.wide))
}

// Start implements [Subject]. It returns when the program has exited, or has sent its first request, which takes an
// interpreter about a second. If no process of the program has ever sent one, the error is a [StartError].
func (c *Command) Start(s *space.Space, how Start) (Process, error) {
	if how.LeaderElection {
		return nil, ErrNoElection
	}
	p := &program{
		space: s, startup: operatorproc.NewStartup(), done: make(chan struct{}), number: how.Number, grace: c.Grace,
	}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	target, err := c.Target(s)
	if err != nil {
		return nil, fmt.Errorf("choosing whom the operator acts as: %w", err)
	}
	p.proxy, err = proxy.Start(s.Context(), proxy.Options{
		Target: target, Namespace: s.Namespace,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return &observer{command: c, program: p, mapper: s.Client.RESTMapper(), next: how.Transport(next)}
		},
	})
	if err != nil {
		return nil, err
	}
	p.space.Cleanup(p.Kill) // for every outcome of the run
	dir := filepath.Join(c.Folder, s.Namespace)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the operator: %w", err)
	}
	cmd := operatorproc.Command{
		Args: c.Args, Env: append([]string{"TMPDIR=" + dir}, c.Env...), Namespace: s.Namespace,
		Kubeconfig: filepath.Join(dir, fmt.Sprintf("kubeconfig-%d", how.Number)),
	}
	if err := p.proxy.WriteKubeconfig(cmd.Kubeconfig, fmt.Sprintf("operator-%d", how.Number)); err != nil {
		return nil, err
	}
	if c.Webhooks != nil {
		if p.webhooks, err = c.Webhooks(s); err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, p.webhooks.Env...)
	}
	i, err := operatorproc.Start(cmd, p.report)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	p.watchProcess(i)
	if err := c.await(s.Context(), p); err != nil {
		return p, err
	}
	return p, c.awaitWebhooks(s.Context(), p)
}

// await waits for the program's first request and for its watches.
func (c *Command) await(ctx context.Context, p *program) error {
	limit := c.Timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	switch err := p.startup.Wait(ctx, p.done, limit); {
	case errors.Is(err, operatorproc.ErrEnded) && p.process.Err() != nil && !c.sentRequest.Load():
		return &StartError{Ended: true, Err: fmt.Errorf("%w\nIt has asked the API server for nothing before", p.process.Err())}
	case errors.Is(err, operatorproc.ErrNoRequest) && !c.sentRequest.Load():
		return &StartError{Err: err}
	}
	return nil // superviseProcess handles the exit, and the oracles a process without requests
}

// program is one process.
type program struct {
	space          *space.Space
	proxy          *proxy.Proxy
	number         int
	grace          time.Duration
	webhooks       Webhooks
	startup        *operatorproc.Startup
	isDisconnected atomic.Bool // the process is about to be killed, so its requests do not count

	mu      sync.Mutex
	process *operatorproc.Process
	done    chan struct{}
}

// watchProcess waits for the exit of the process in the background.
func (p *program) watchProcess(i *operatorproc.Process) {
	p.mu.Lock()
	p.process = i
	p.mu.Unlock()
	go func() {
		<-i.Done()
		if exit := new(operatorproc.ExitError); errors.As(i.Err(), &exit) {
			p.log(time.Now(), fmt.Sprintf("(it ended by itself: %s)", exit.Exit))
		}
		if p.webhooks.Stop != nil {
			p.webhooks.Stop()
		}
		close(p.done)
	}()
}

func (p *program) report(l operatorproc.Line) { p.log(l.At, l.Text) }

func (p *program) log(at time.Time, text string) {
	if p.number > 1 {
		text = fmt.Sprintf("[process %d] %s", p.number, text)
	}
	p.space.Log(at, text)
}

func (p *program) end(how func(i *operatorproc.Process) error) {
	p.mu.Lock()
	i := p.process
	p.mu.Unlock()
	if i != nil {
		if err := how(i); err != nil {
			p.space.Fail(fmt.Sprintf("ending the operator: %v", err))
		}
		<-p.done
	}
	p.proxy.Close() // aborts pending requests
}

// Kill implements [Process].
func (p *program) Kill() { p.end((*operatorproc.Process).Kill) }

// Stop implements [Process].
func (p *program) Stop() {
	p.end(func(i *operatorproc.Process) error {
		err := i.Stop(p.grace)
		if i.Exit().Forced {
			p.log(time.Now(), fmt.Sprintf("(it was told to stop, had not ended %v later, and was killed)", p.grace))
		}
		return err
	})
}

// Done implements [Process].
func (p *program) Done() <-chan struct{} { return p.done }
