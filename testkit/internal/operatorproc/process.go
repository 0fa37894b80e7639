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

// operatorName is the operator's name in errors.
const operatorName = "the operator"

// A Process is a running or ended operator. It is safe for concurrent use.
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

// Exit describes the end of a process.
type Exit struct {
	// Code is the exit status of the program, or -1 after a signal.
	Code int
	// Signal is the signal that ended the program, or 0.
	Signal syscall.Signal
	// Forced is true if the process did not stop within the grace period and was killed.
	Forced bool
}

// String returns "exit status 1" or, for example, "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// An ExitError reports that a process ended without Kill or Stop, with or without an error of its own.
type ExitError struct {
	Exit Exit
	// Lines are the last lines of output, at most 20.
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

// Start starts the command and returns at once. Each line of output is passed to onLine, one at a time. onLine may be
// nil. While onLine blocks, the operator may block on output.
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

// describe adds advice to the error of a failed start.
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

// awaitEnd waits for the end of the process and ends its group.
func (p *Process) awaitEnd() {
	<-p.process.Done()
	// The program may be a shell that started the operator and exited. The number of the group is safe to use: it stays
	// taken while a process of the group lives, and the system does not reuse numbers at once.
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

// Done returns a channel that is closed when the process has ended for any reason and its last line has been reported.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns the end of the process. Call it only after Done is closed.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit()
}

// Err returns nil while the process runs, and after Kill or Stop ended it. It returns an [*ExitError] if the process
// ended by itself, even right before Kill.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Tail returns the last lines of output, at most 20.
func (p *Process) Tail() []Line { return p.output.tail() }

// Kill kills the process group and waits for its end. It does nothing if the process has ended.
func (p *Process) Kill() error {
	p.setIfRunning(&p.killed)
	if err := p.process.Kill(); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop sends SIGTERM to the process group, as Kubernetes does for a pod, and kills it after the grace period: Exit then
// has Forced. Stop waits for the end. It does nothing if the process has ended.
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

// setIfRunning sets a flag, unless the process has ended.
func (p *Process) setIfRunning(flag *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.process.Done():
	default:
		*flag = true
	}
}
