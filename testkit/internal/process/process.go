package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// pollInterval is the polling interval of WaitReady. A control plane takes seconds, a poll well under a millisecond.
const pollInterval = 20 * time.Millisecond

// tailLines is the number of log lines in an error message.
const tailLines = 20

// A Process is a running child. Its standard output and error go to LogFile, unless Launch started it.
type Process struct {
	Name    string
	LogFile string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start runs the command in its own process group with its output in logFile. It overwrites cmd's Stdout, Stderr and
// SysProcAttr. On Linux the kernel kills the child when this process ends for any reason.
func Start(name string, cmd *exec.Cmd, logFile string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd.Stdout = log
	cmd.Stderr = log
	p, err := Launch(name, cmd)
	if err != nil {
		return nil, err
	}
	p.LogFile = logFile
	return p, nil
}

// Launch is Start without a log: it uses cmd's Stdout and Stderr unchanged, and errors contain no log.
func Launch(name string, cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = sysProcAttr()
	p := &Process{Name: name, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the parent-death signal when the *thread* that forked ends, so this thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// ID identifies the process on this machine.
func (p *Process) ID() ID {
	id, err := Identify(p.cmd.Process.Pid)
	if err != nil { // it has ended already: a pid without a start time matches no process
		return ID{PID: p.cmd.Process.Pid}
	}
	return id
}

// PID returns the pid. It is meaningless after the end of the process: see ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns the state of the ended process. It may be called only after Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Outcome describes the end of the process, for example "exit status 1". It may be called only after Done is closed.
func (p *Process) Outcome() string {
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// Signal sends sig to the process's whole group. It returns nil if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to %s (pid %d): %w", sig, p.Name, p.cmd.Process.Pid, err)
	}
	return nil
}

// Kill kills the process's whole group and returns when the process has ended.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// WaitReady polls ready until it returns nil. If the process or ctx ends first, the error contains the last result and
// the tail of the log. The context passed to ready ends with the process, because ready may be talking to another
// process that never responds.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-asking.Done():
		}
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := ready(asking)
		if err == nil {
			return nil
		}
		if last == nil || asking.Err() == nil { // a call that ctx has ended does not know what is missing
			last = err
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready (%s); the end of its log:\n%s", p.Name, p.Outcome(), p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%w); the end of its log:\n%s", p.Name, ctx.Err(), last, p.Tail())
		case <-ticker.C:
		}
	}
}

// Tail returns the last lines of the log, indented.
func (p *Process) Tail() string {
	return Tail(p.LogFile)
}

// Tail returns the last lines of a file, indented, or the error.
func Tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("  (no log: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return "  " + strings.Join(lines, "\n  ")
}
