package operatorproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// operatorName is what an operator is called in errors.
const operatorName = "the operator"

// An Incarnation is a running operator, or one that has run. Its methods may be called from several goroutines.
type Process struct {
	process  *process.Process
	watchdog *watchdog
	output   *output
	done     chan struct{}

	mu      sync.Mutex
	killed  bool
	stopped bool
	forced  bool
	err     error // set before done is closed
}

// Exit is how an incarnation ended.
type Exit struct {
	// Code is the exit status of the program, -1 if a signal ended it.
	Code int
	// Signal is the one that ended the program, or 0.
	Signal syscall.Signal
	// Forced says that it was stopped, but did not end within the grace period and had to be killed.
	Forced bool
}

// String is "exit status 1" or, for example, "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// An ExitError says that an incarnation ended although nobody told it to. An operator that returns without an error
// has ended as well.
type ExitError struct {
	Exit Exit
	// Lines are the last ones that it printed, at most 20.
	Lines []Line
}

func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ended by itself (%s)", operatorName, e.Exit)
	if len(e.Lines) == 0 {
		return b.String() + " and has printed nothing"
	}
	b.WriteString("; the last it printed:")
	for _, line := range e.Lines {
		b.WriteString("\n  " + line.Text)
	}
	return b.String()
}

// Start starts the command and returns at once. Each line that it prints is handed to onLine, one at a time; nil means
// that nobody wants to know. As long as onLine does not return the operator may have to wait before it can print more.
func Start(cmd Command, onLine func(Line)) (*Process, error) {
	c, err := cmd.prepare()
	if err != nil {
		return nil, err
	}
	out, err := newOutput(c, onLine)
	if err != nil {
		return nil, err
	}
	p, err := process.Launch(operatorName, c)
	out.closeWriters()
	if err != nil {
		return nil, errors.Join(describe(err, cmd), out.drain())
	}
	i := &Process{process: p, output: out, done: make(chan struct{})}
	if i.watchdog, err = startWatchdog(p.PID()); err != nil {
		return nil, errors.Join(err, p.Kill(), out.drain())
	}
	go i.awaitEnd()
	return i, nil
}

// describe says what to do about a command that could not be started.
func describe(err error, cmd Command) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: install it, or give its path", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: make %s executable, or put its interpreter in front of it", err, cmd.Args[0])
	default:
		return err
	}
}

// awaitEnd attends to the end.
func (p *Process) awaitEnd() {
	<-p.process.Done()
	// The program may be a shell that has started the operator and gone away. No other group can have this number as
	// long as one of its processes lives, and numbers are not used again at once.
	_ = syscall.Kill(-p.process.PID(), syscall.SIGKILL)
	p.watchdog.stop()
	readErr := p.output.drain()

	p.mu.Lock()
	defer p.mu.Unlock()
	exit := p.exit()
	expected := p.stopped || p.killed && exit.Signal == syscall.SIGKILL
	if !expected {
		p.err = &ExitError{Exit: exit, Lines: p.output.tail()}
	}
	p.err = errors.Join(p.err, readErr)
	close(p.done)
}

func (p *Process) exit() Exit {
	exit := Exit{Code: p.process.State().ExitCode(), Forced: p.forced}
	if status, ok := p.process.State().Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}

// ID identifies the program's process on this machine.
func (p *Process) ID() process.ID { return p.process.ID() }

// Done is closed when the incarnation has ended, whoever ended it, and its last line has been reported.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the incarnation ended. It may be called only after Done is closed.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit()
}

// Err returns nil as long as the incarnation runs and after it was ended by Kill or Stop. It is an [*ExitError] if it
// ended by itself, also if that was just before Kill.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Tail returns the last lines that it printed, at most 20.
func (p *Process) Tail() []Line { return p.output.tail() }

// Kill ends the whole group at once, as a crash would, and returns when it is gone. What has ended is left alone.
func (p *Process) Kill() error {
	p.setIfRunning(&p.killed)
	if err := p.process.Kill(); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the whole group to end, as Kubernetes does before it takes a pod away, and kills it when the grace period
// is over: Exit then says Forced. It returns when the incarnation is gone. What has ended is left alone.
func (p *Process) Stop(grace time.Duration) error {
	p.setIfRunning(&p.stopped)
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		p.setIfRunning(&p.forced)
		return p.Kill()
	}
}

// setIfRunning notes what is about to be done to an incarnation that has not ended.
func (p *Process) setIfRunning(flag *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.process.Done():
	default:
		*flag = true
	}
}
