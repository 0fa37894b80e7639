package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// grace is the time that a program has to end after an interrupt.
const grace = 5 * time.Second

// A command runs a program in a folder with additional environment, and returns its output. A canceled program is
// interrupted, and killed when it has not ended within [grace]. So are the child processes of the go command, which do the
// work. Others, like git, may ask for a password, which a terminal allows only in its foreground process group.
type command struct {
	dir string
	env []string
}

func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	return c.runWithInput(ctx, "", name, args...)
}

func (c command) runWithInput(ctx context.Context, input, name string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // no shell, and the arguments are those of the user
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout = &out
	cmd.Stderr = &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: name == "go"}
	signal := func(s syscall.Signal) error {
		if cmd.SysProcAttr.Setpgid {
			return syscall.Kill(-cmd.Process.Pid, s)
		}
		return syscall.Kill(cmd.Process.Pid, s)
	}
	cmd.Cancel = func() error { return signal(syscall.SIGINT) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil && cmd.SysProcAttr.Setpgid {
		_ = signal(syscall.SIGKILL) // processes that have not ended; usually there are none
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(problems.String()+out.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// lastLines returns the last lines of an output. They contain the error.
func lastLines(text string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
