package programs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A Group is a set of programs that run together. It fails if one of them exits by itself. Its methods are safe for
// concurrent use.
type Group struct {
	dir  string
	done chan struct{}

	mu      sync.Mutex
	err     error
	stopped bool
	stops   []func()
}

// NewGroup returns a Group without programs. Their output goes to NAME.log in an existing folder.
func NewGroup(dir string) *Group { return &Group{dir: dir, done: make(chan struct{})} }

// Launch starts a program, which Stop ends. If it exits because an address is in use, it is started again with new
// arguments, at most three times: a port in the arguments was free only when it was chosen.
func (g *Group) Launch(program string, args func() ([]string, error), env ...string) error {
	const further = 3
	return g.launch(further, program, args, env)
}

func (g *Group) launch(further int, program string, args func() ([]string, error), env []string) error {
	list, err := args()
	if err != nil {
		return err
	}
	stop, err := Start(g.dir, program, list, func(err error) {
		if further > 0 && strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			err = g.launch(further-1, program, args, env)
		}
		if err != nil {
			g.fail(err)
		}
	}, env...)
	if err != nil {
		return err
	}
	g.AtStop(stop)
	return nil
}

// AtStop registers a function for Stop, which calls the functions in reverse order. If the group has stopped already, AtStop
// calls the function.
func (g *Group) AtStop(do func()) {
	g.mu.Lock()
	stopped := g.stopped
	if !stopped {
		g.stops = append(g.stops, do)
	}
	g.mu.Unlock()
	if stopped {
		do()
	}
}

// Stop ends all programs. It is idempotent.
func (g *Group) Stop() {
	g.mu.Lock()
	stops := g.stops
	g.stopped = true
	g.stops = nil
	g.mu.Unlock()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil { // the first reason is kept
		g.err = err
		close(g.done)
	}
}

// Done returns a channel that is closed when one of the programs has exited by itself.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err returns the program that exited by itself, and its last output. It is nil while all programs run.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// A Test is a *testing.T.
type Test interface {
	Helper()
	Error(args ...any)
	Log(args ...any)
	Failed() bool
	Cleanup(do func())
}

// Watch fails a test, with the reason, as soon as the group fails. If the test has failed for any reason, its cleanup logs
// the last output of the programs.
func (g *Group) Watch(t Test) {
	t.Helper()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-g.done:
			t.Error(g.Err())
		case <-over:
		}
	}()
	t.Cleanup(func() {
		close(over)
		<-done
		if t.Failed() {
			t.Log(g.logTails())
		}
	})
}

// logTails returns the last lines of each log.
func (g *Group) logTails() string {
	const enough = 20
	files, err := filepath.Glob(filepath.Join(g.dir, "*.log"))
	errs := []error{err}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		errs = append(errs, err)
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		_, _ = fmt.Fprintf(&text, "the end of %s:\n%s\n", filepath.Base(file),
			bytes.Join(lines[max(0, len(lines)-enough):], []byte("\n")))
	}
	if err := errors.Join(errs...); err != nil {
		_, _ = fmt.Fprintln(&text, err)
	}
	return text.String()
}
