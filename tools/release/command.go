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

// grace is how long a program may take to end after it was asked to.
const grace = 5 * time.Second

// A command runs a program in a folder with more environment, and returns what it printed. A program that is canceled is
// interrupted, and killed when it has not ended within [grace]; so is what the go command has started, which is where the
// work is done. Others, like git, may ask for a password, which a terminal allows its foreground only.
type command struct {
	dir string
	env []string
}

func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	return c.runWith(ctx, "", name, args...)
}

func (c command) runWith(ctx context.Context, input, name string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // there is no shell, and what there is was said by its user
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: name == "go"}
	signal := func(s syscall.Signal) error {
		if cmd.SysProcAttr.Setpgid {
			return syscall.Kill(-cmd.Process.Pid, s)
		}
		return syscall.Kill(cmd.Process.Pid, s)
	}
	cmd.Cancel, cmd.WaitDelay = func() error { return signal(syscall.SIGINT) }, grace
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil && cmd.SysProcAttr.Setpgid {
		_ = signal(syscall.SIGKILL) // what has not ended; most times there is nothing
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(problems.String()+out.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// lastLines are those that say what went wrong, after whatever was printed before.
func lastLines(text string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
