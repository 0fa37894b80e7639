package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

// Command is an operator that is a program, in any language: a [Subject] whose incarnations are processes, each behind a
// proxy of its own.
//
// What the program asks of all namespaces at once it gets of its run's namespace alone, because other runs go on in others.
type Command struct {
	// Args are the program and its arguments, Env further variables for it: see [process.Command] for what is
	// replaced in them, and for the variables that every program gets.
	Args, Env []string
	// Folder is an existing one. Each run has a folder in it, for kubeconfigs and, by TMPDIR, for what programs that are
	// killed do not clean up.
	Folder string
	// Target returns the client configuration that stands for the program in k's namespace.
	Target func(k *testkit.K) (*rest.Config, error)
	// Everywhere reports whether the program may do this in all namespaces at once. If it may not, the API server is
	// asked as it was meant, and refuses. Nil means that it may do everything.
	Everywhere func(verb string, resource schema.GroupResource) bool
	// Patience is how long a program may take until its first request. Zero means 30 s.
	Patience time.Duration
	// Grace is how long it may take to end in order. Zero means 10 s.
	Grace time.Duration

	sentRequest atomic.Bool // some incarnation has sent a request

	mu       sync.Mutex
	narrowed []string // resources that were asked for in all namespaces
}

const defaultGrace = 10 * time.Second

// A StartError says that a program cannot be explored: it could not be started, or has never sent a request.
type StartError struct {
	// Ended says that it was started and has ended by itself.
	Ended bool
	Err   error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Narrowed returns the resources that the program asked for in all namespaces.
func (c *Command) Narrowed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.narrowed))
}

// Start implements [Subject]. It returns when the program has sent its first request, which may take an interpreter a
// second, or has ended. If no incarnation of it has ever sent one, that is a [StartError].
func (c *Command) Start(k *testkit.K, how Start) (Process, error) {
	if how.Elect {
		return nil, ErrNoElection
	}
	p := &program{tb: recordingTBOf(k), firstRequest: make(chan struct{}), done: make(chan struct{}), number: how.Number, grace: c.Grace}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	target, err := c.Target(k)
	if err != nil {
		return nil, fmt.Errorf("choosing whom the operator acts as: %w", err)
	}
	p.proxy, err = proxy.Start(k.Context(), proxy.Options{
		Target: target, Namespace: k.Namespace,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return &scope{command: c, program: p, mapper: k.Client.RESTMapper(), namespace: k.Namespace, next: how.Transport(next)}
		},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	p.tb.Cleanup(p.Kill) // whatever becomes of the run
	dir := filepath.Join(c.Folder, k.Namespace)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the operator: %w", err)
	}
	cmd := operatorproc.Command{
		Args: c.Args, Env: append([]string{"TMPDIR=" + dir}, c.Env...), Namespace: k.Namespace,
		Kubeconfig: filepath.Join(dir, fmt.Sprintf("kubeconfig-%d", how.Number)),
	}
	if err := p.proxy.WriteKubeconfig(cmd.Kubeconfig, fmt.Sprintf("operator-%d", how.Number)); err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	i, err := operatorproc.Start(cmd, p.report)
	if err != nil {
		return nil, &StartError{Err: err}
	}
	p.watchProcess(i)
	return p, c.await(k.Context(), p)
}

// await returns when the program has sent a request.
func (c *Command) await(ctx context.Context, p *program) error {
	patience := c.Patience
	if patience == 0 {
		patience = defaultTimeout
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-p.firstRequest:
		p.waitStartup(ctx)
		return nil
	case <-p.done:
		if err := p.process.Err(); err != nil && !c.sentRequest.Load() {
			return &StartError{Ended: true, Err: fmt.Errorf("%w\nIt has asked the API server for nothing before", err)}
		}
		return nil // which is for whoever watches over it
	case <-timeout.C:
		if c.sentRequest.Load() {
			return nil // it will be missed
		}
		return &StartError{Err: fmt.Errorf("the operator has asked the API server for nothing within %v: make it use the "+
			"kubeconfig in KUBECONFIG, or write {kubeconfig} where its arguments take one", patience)}
	case <-ctx.Done():
		return nil // the run is over
	}
}

const (
	// startupQuiet is for how long a program must not have asked for anything new to count as being under way.
	startupQuiet = 100 * time.Millisecond
	// maxStartup is for those that never stop asking.
	maxStartup = 2 * time.Second
)

// awaitConvergence returns when the program has asked for what it begins with: its watches are open.
func (p *program) waitStartup(ctx context.Context) {
	over := time.After(maxStartup)
	for {
		p.mu.Lock()
		wait := startupQuiet - time.Since(p.lastRequest)
		p.mu.Unlock()
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-over:
			return
		case <-p.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// program is one incarnation.
type program struct {
	tb           *recordingTB
	proxy        *proxy.Proxy
	number       int
	grace        time.Duration
	firstRequest chan struct{} // closed with the first request
	once         sync.Once     // closes it
	isSevered    atomic.Bool   // it is about to be killed, and what it still tries counts for nothing

	mu          sync.Mutex
	process     *operatorproc.Process
	done        chan struct{}
	lastRequest time.Time // when it sent its last request
}

// watchProcess watches over the process from its start on.
func (p *program) watchProcess(i *operatorproc.Process) {
	p.mu.Lock()
	p.process = i
	p.mu.Unlock()
	go func() {
		<-i.Done()
		if exit := new(operatorproc.ExitError); errors.As(i.Err(), &exit) {
			p.log(time.Now(), fmt.Sprintf("(it ended by itself: %s)", exit.Exit))
		}
		close(p.done)
	}()
}

// noteRequest notes that the process sends a request.
func (p *program) noteRequest() {
	p.mu.Lock()
	p.lastRequest = time.Now()
	p.mu.Unlock()
	p.once.Do(func() { close(p.firstRequest) })
}

func (p *program) report(l operatorproc.Line) { p.log(l.At, l.Text) }

func (p *program) log(at time.Time, text string) {
	if p.number > 1 {
		text = fmt.Sprintf("[process %d] %s", p.number, text)
	}
	p.tb.addLine(at, text)
}

func (p *program) end(how func(i *operatorproc.Process) error) {
	p.mu.Lock()
	i := p.process
	p.mu.Unlock()
	if i != nil {
		if err := how(i); err != nil {
			p.tb.Errorf("ending the operator: %v", err)
		}
		<-p.done
	}
	p.proxy.Close() // what is still under way is nobody's any more
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

// recordingTBKey is for finding a run's probe by its context.
type recordingTBKey struct{}

// recordingTBOf returns the probe that k was made for.
func recordingTBOf(k *testkit.K) *recordingTB {
	p, _ := k.Context().Value(recordingTBKey{}).(*recordingTB)
	return p
}

// Effects is how many of the operator's requests changed something in the fault-free runs, as far as they are the same in
// all of them. It is 0 before Learn.
func (x *Explorer) Effects() int {
	if x.baseline == nil {
		return 0
	}
	n := 0
	for _, t := range x.baseline.calls {
		if t.effective {
			n++
		}
	}
	return n
}

// Fail ends a step, or the setup, of a scenario whose work cannot be done. That is no failure if the run has been ended
// meanwhile.
func Fail(k *testkit.K, err error) {
	if p := recordingTBOf(k); k.Context().Err() == nil {
		p.fail(err.Error())
	}
	runtime.Goexit()
}
