package assets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// command is a run of the Go tool. It does not outlive its caller.
type command struct {
	name   string
	args   []string
	dir    string
	env    []string
	stdout func(line string)
	stderr func(line string)
}

// run runs the command and returns when it has ended. Canceling ctx kills it and all its children. If this process is
// killed, the kernel kills the Go tool on Linux; a compiler started by it ends soon by itself.
func (c *command) run(ctx context.Context) error {
	cmd := exec.Command(c.name, c.args...) // runLocked ends the whole group when ctx ends
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.SysProcAttr = childAttributes()
	var tail lastLines
	if c.stdout == nil {
		c.stdout = tail.add
	}
	stdout, stderr := newLineWriter(c.stdout), newLineWriter(func(line string) {
		tail.add(line)
		if c.stderr != nil {
			c.stderr(line)
		}
	})
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	err := runLocked(ctx, cmd)
	stdout.flush()
	stderr.flush()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("running go %s: %w", c.args[0], ctx.Err())
	case err != nil:
		return diagnose(c.args[0], err, tail.lines)
	default:
		return nil
	}
}

// runLocked keeps its thread until the command has ended: the parent-death signal of Linux is tied to the thread.
func runLocked(ctx context.Context, cmd *exec.Cmd) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			result <- fmt.Errorf("starting: %w", err)
			return
		}
		stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		err := cmd.Wait()
		stop()
		result <- err
	}()
	return <-result
}

// diagnoses explain frequent failures by patterns in the output of the Go tool. The first match wins.
var diagnoses = []struct {
	pattern  *regexp.Regexp
	sentence string
}{
	{regexp.MustCompile(`no space left on device|disk quota exceeded`), "the disk is full; " + spaceRemedy},
	{
		regexp.MustCompile(`requires go >= |toolchain not available|invalid go version`),
		"the Go toolchain on the PATH is too old, and a newer one could not be fetched; install Go 1.26",
	},
	{
		regexp.MustCompile(`checksum mismatch|SECURITY ERROR|missing go\.sum entry`),
		"a module is not what it was when this version of testkit was made; what GOPROXY names cannot be trusted",
	},
	{
		regexp.MustCompile(`dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|` +
			`module lookup disabled|cannot find module providing|unrecognized import path|` +
			`: (401|403|404|407|410|50[0-9]) `),
		"modules cannot be downloaded; set GOPROXY to a Go module proxy that answers",
	},
}

// diagnose turns the output of the Go tool into one sentence, followed by the output.
func diagnose(verb string, err error, lines []string) error {
	for _, d := range diagnoses {
		for _, line := range lines {
			if d.pattern.MatchString(line) {
				return fmt.Errorf("%s (go %s: %s)", d.sentence, verb, strings.TrimSpace(line))
			}
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(lines) > 0 {
		return fmt.Errorf("go %s failed (%w); its last words:\n  %s", verb, err, strings.Join(lines, "\n  "))
	}
	return fmt.Errorf("running go %s: %w", verb, err)
}

// lastLines keeps the last lines of output. It is safe for concurrent use.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastLines) add(line string) {
	const enough = 12
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, line); len(l.lines) > enough {
		l.lines = l.lines[1:]
	}
}

// lineWriter calls a function for every line that is written to it.
type lineWriter struct {
	line    func(string)
	pending bytes.Buffer
}

func newLineWriter(line func(string)) *lineWriter { return &lineWriter{line: line} }

var _ io.Writer = (*lineWriter)(nil)

// Write never fails.
func (w *lineWriter) Write(data []byte) (int, error) {
	w.pending.Write(data)
	for {
		i := bytes.IndexByte(w.pending.Bytes(), '\n')
		if i < 0 {
			return len(data), nil
		}
		w.line(strings.TrimRight(string(w.pending.Next(i+1)), "\r\n"))
	}
}

// flush passes on a last line without a line end.
func (w *lineWriter) flush() {
	s := bufio.NewScanner(&w.pending)
	for s.Scan() {
		w.line(s.Text())
	}
}
