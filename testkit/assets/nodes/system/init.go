//go:build linux

package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An Init starts the processes of a PID namespace whose PID 1 is this process, and reaps all processes that end in it,
// also those whose parents have ended. Such a process must not use package os/exec, because Init would reap its children.
// It is safe for concurrent use.
type Init struct {
	mu       sync.Mutex
	children map[int]*Child
}

// A Child is a process that Init started.
type Child struct {
	// PID is the pid in the namespace of this process.
	PID  int
	name string
	log  string
	done chan struct{}
	end  unix.WaitStatus // set before done is closed
}

// NewInit begins to reap processes. A process calls it once.
func NewInit() *Init {
	i := &Init{children: map[int]*Child{}}
	go i.reap()
	return i
}

func (i *Init) reap() {
	const idleInterval = 50 * time.Millisecond // while there is no child
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			<-time.After(idleInterval)
		case err != nil: // interrupted
		default:
			i.ended(pid, status)
		}
	}
}

func (i *Init) ended(pid int, status unix.WaitStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, ok := i.children[pid]; ok {
		delete(i.children, pid)
		c.end = status
		close(c.done)
	}
}

// A Command describes a process to start.
type Command struct {
	// Args is the program, looked up in PATH, and its arguments.
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Stdin is the standard input; nil means none.
	Stdin *os.File
	// Log is the file to append standard output and error to.
	Log string
	// Namespaces are flags such as unix.CLONE_NEWNET.
	Namespaces uintptr
}

// Start starts a process. The kernel kills it when this process ends.
func (i *Init) Start(c Command) (*Child, error) {
	name := filepath.Base(c.Args[0])
	program, err := lookPath(c.Args[0])
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	stdin := c.Stdin
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
		defer func() { _ = stdin.Close() }()
	}
	i.mu.Lock() // reap waits for the entry
	defer i.mu.Unlock()
	pid, err := syscall.ForkExec(program, c.Args, &syscall.ProcAttr{
		Env: append(os.Environ(), c.Env...), Files: []uintptr{stdin.Fd(), log.Fd(), log.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true, Cloneflags: c.Namespaces},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	child := &Child{PID: pid, name: name, log: c.Log, done: make(chan struct{})}
	i.children[pid] = child
	return child, nil
}

// Keep starts a process again each time that it has ended, after a pause. It does not return.
func (i *Init) Keep(c Command, child *Child, pause time.Duration) {
	for {
		if child != nil {
			<-child.Done()
		}
		<-time.After(pause)
		var err error
		if child, err = i.Start(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// Run runs a process and waits for it. The error has the end of its output.
func (i *Init) Run(logFile string, args ...string) error {
	c, err := i.Start(Command{Args: args, Log: logFile})
	if err != nil {
		return err
	}
	<-c.done
	return c.Err()
}

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns nil if the process ended with exit status 0. It may be called only after Done is closed.
func (c *Child) Err() error {
	switch {
	case c.end.Signaled():
		return fmt.Errorf("%s ended by signal %v; the end of its log:\n%s", c.name, c.end.Signal(), Tail(c.log))
	case c.end.ExitStatus() != 0:
		return fmt.Errorf("%s ended with exit status %d; the end of its log:\n%s", c.name, c.end.ExitStatus(), Tail(c.log))
	}
	return nil
}

// Kill ends the process at once, and returns when it has ended.
func (c *Child) Kill() {
	c.SendKill()
	<-c.done
}

// SendKill is Kill, and does not wait.
func (c *Child) SendKill() { _ = unix.Kill(c.PID, unix.SIGKILL) }

// Tail returns the last lines of a log, indented.
func Tail(file string) string {
	const lines = 15
	data, err := os.ReadFile(file)
	if err != nil {
		return "  " + err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// lookPath is exec.LookPath, which package os/exec has.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for dir := range strings.SplitSeq(os.Getenv("PATH")+":/usr/sbin:/sbin", ":") {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", name)
}
