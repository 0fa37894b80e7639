package function

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

// Defaults of [Process] and [Server].
const (
	DefaultTimeout      = 10 * time.Second
	DefaultStartTimeout = 30 * time.Second
	DefaultMaxAnswer    = 16 << 20 // bytes
	DefaultSize         = 2
)

// Process is a [Transport] to a function in child processes: each request is one line of JSON on the standard input, and
// each answer one line on the standard output. The standard error is logged. A process has one request at a time. One that
// ends, answers anything else or does not answer in time is killed, with its descendants, and replaced by the next call.
// Processes that fail one after the other are started with increasing delays, up to 10 seconds.
type Process struct {
	// Command is the program and its arguments. Required.
	Command []string
	// Dir is the working directory. Empty means that of the engine.
	Dir string
	// Env has additional variables of the environment, as NAME=VALUE.
	Env []string
	// Size is the largest number of processes. A process is started when all others are in a call. Zero means DefaultSize.
	Size int
	// Timeout is the time for an answer. Zero means DefaultTimeout.
	Timeout time.Duration
	// StartTimeout is the time for the first answer of a process, which has to start. Zero means DefaultStartTimeout.
	StartTimeout time.Duration
	// MaxAnswer is the largest answer in bytes. Zero means DefaultMaxAnswer.
	MaxAnswer int
}

// Connect implements [Transport]. The lines of the standard error are logged. No process is started before the first call.
func (p *Process) Connect(log logr.Logger) Connection {
	c := &processes{Process: *p, log: log, slots: make(chan *worker, cmp.Or(p.Size, DefaultSize))}
	for range cap(c.slots) {
		c.slots <- nil
	}
	return c
}

// Validate implements [Transport].
func (p *Process) Validate() error {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return errors.New("field Command of Process is empty")
	}
	return nil
}

// processes is the connection to the processes of one engine.
type processes struct {
	Process
	log   logr.Logger
	slots chan *worker // the processes that have no request; nil for one that is to be started

	mu       sync.Mutex
	closed   bool
	failures int       // consecutive failures
	notYet   time.Time // no process is started before
	last     error
}

// worker is a running process.
type worker struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	lines   chan line     // answers; closed when the standard output ends
	ended   chan struct{} // closed when the process has ended
	endErr  error         // valid after ended
	started bool          // it has answered once
	tail    tail
}

// line is one line of the standard output.
type line struct {
	data []byte
	err  error
}

// Close implements [Connection]. The processes get an end of file, and are killed after a second.
func (p *processes) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var all []*worker
	for range cap(p.slots) { // calls in progress end first
		if w := <-p.slots; w != nil {
			all = append(all, w)
		}
	}
	for _, w := range all {
		_ = w.stdin.Close() // it has ended if this fails
	}
	for _, w := range all {
		w.end(time.Second)
	}
	for range cap(p.slots) {
		p.slots <- nil
	}
}

// Call sends a request to a process that has none, and waits for one if all have.
func (p *processes) Call(ctx context.Context, request []byte) ([]byte, error) {
	var w *worker
	select {
	case w = <-p.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for range cap(p.slots) - 1 { // one that has started already is preferred
		if w != nil {
			break
		}
		select {
		case w = <-p.slots:
			p.slots <- nil
		default:
		}
	}
	answer, w, err := p.callOn(ctx, w, request)
	p.slots <- w
	return answer, err
}

// callOn calls the function on a process, or on a new one if it is nil or has ended. It returns the process if it can be
// used again.
func (p *processes) callOn(ctx context.Context, w *worker, request []byte) ([]byte, *worker, error) {
	if w != nil && w.hasEnded() {
		w = nil
	}
	if w == nil {
		var err error
		if w, err = p.start(); err != nil {
			return nil, nil, err
		}
	}
	timeout := cmp.Or(p.Timeout, DefaultTimeout)
	if !w.started {
		timeout = max(timeout, cmp.Or(p.StartTimeout, DefaultStartTimeout))
	}
	answer, err := w.call(ctx, request, timeout)
	if err != nil {
		w.end(0)
		p.count(err)
		return nil, nil, err
	}
	w.started = true
	p.count(nil)
	return answer, w, nil
}

// count remembers the result of a call, for the delay of the next start.
func (p *processes) count(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.failures = 0
		p.notYet = time.Time{}
		return
	}
	p.last = err
	if p.failures > 0 { // the first one costs nothing
		p.notYet = time.Now().Add(min(100*time.Millisecond<<min(p.failures, 10), 10*time.Second))
	}
	p.failures++
}

// start starts a process, unless processes fail one after the other: then it returns the last failure until the delay is
// over.
func (p *processes) start() (*worker, error) {
	p.mu.Lock()
	last, wait, closed := p.last, time.Until(p.notYet) > 0, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case wait:
		return nil, last
	}
	cmd := exec.Command(p.Command[0], p.Command[1:]...) //nolint:gosec // the command is the operator's own.
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its descendants are killed with it
	cmd.WaitDelay = time.Second                           // a descendant may hold the pipes
	w := &worker{cmd: cmd, lines: make(chan line), ended: make(chan struct{})}
	cmd.Stderr = &logWriter{log: p.log, tail: &w.tail}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the process of the function: %w", err)
	}
	w.stdin = stdin
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		err = &CallError{ReasonUnavailable, fmt.Sprintf("the process of the function cannot be started: %s", err)}
		p.count(err)
		return nil, err
	}
	go w.read(reader, cmp.Or(p.MaxAnswer, DefaultMaxAnswer))
	go func() {
		w.endErr = cmd.Wait()
		_ = writer.Close() // it never fails
		close(w.ended)
	}()
	return w, nil
}

// read sends each line of the standard output, until it ends or a line is too long.
func (w *worker) read(reader *io.PipeReader, limit int) {
	defer close(w.lines)
	scanner := bufio.NewScanner(reader)
	scanner.Buffer(nil, limit)
	for scanner.Scan() {
		w.send(line{data: bytes.Clone(scanner.Bytes())})
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		w.send(line{err: &CallError{
			ReasonInvalidAnswer,
			fmt.Sprintf("the answer of the function is larger than %d bytes", limit),
		}})
	}
	_ = reader.Close() // the process gets an error if it writes more
}

func (w *worker) send(l line) {
	select {
	case w.lines <- l:
	case <-w.ended:
	}
}

// call sends a request and waits for the answer.
func (w *worker) call(ctx context.Context, request []byte, timeout time.Duration) ([]byte, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	sent := make(chan error, 1)
	go func() { // a process that does not read blocks it
		_, err := w.stdin.Write(append(bytes.Clone(request), '\n'))
		sent <- err
	}()
	for {
		select {
		case err := <-sent:
			if err != nil {
				<-w.waitEnd()
				return nil, w.crash()
			}
			sent = nil
		case l, ok := <-w.lines:
			switch {
			case !ok:
				<-w.waitEnd()
				return nil, w.crash()
			case l.err != nil:
				return nil, l.err
			}
			return l.data, nil
		case <-timer.C:
			return nil, &CallError{ReasonTimeout, "the function did not answer in time: see --function-timeout"}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// waitEnd returns a channel that is closed when the process has ended. One that closed its standard input without ending is
// killed.
func (w *worker) waitEnd() <-chan struct{} {
	select {
	case <-w.ended:
	case <-time.After(100 * time.Millisecond):
		w.kill()
	}
	return w.ended
}

// crash returns the error for a process that has ended in a call.
func (w *worker) crash() error {
	state := "it closed its input"
	if w.endErr != nil {
		state = w.endErr.Error()
	} else if w.cmd.ProcessState != nil {
		state = w.cmd.ProcessState.String()
	}
	text := fmt.Sprintf("the process of the function ended in the call (%s)", state)
	if last := w.tail.last(); last != "" {
		text += ": " + last
	}
	return &CallError{ReasonCrashed, text}
}

func (w *worker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// end waits for the end of the process for this time, then kills it.
func (w *worker) end(grace time.Duration) {
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-w.ended:
			return
		case <-timer.C:
		}
	}
	w.kill()
	_ = w.stdin.Close() // it has ended if this fails
	<-w.ended
}

func (w *worker) kill() {
	_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) // it has ended if this fails
}

// tail holds the last line of the standard error.
type tail struct {
	mu   sync.Mutex
	text string
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// logWriter logs each line that is written.
type logWriter struct {
	log  logr.Logger
	tail *tail
	rest []byte
}

// maxLogLine is the longest line that is logged as one, in bytes.
const maxLogLine = 16 << 10

// Write implements io.Writer.
func (l *logWriter) Write(data []byte) (int, error) {
	n := len(data)
	l.rest = append(l.rest, data...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) > maxLogLine {
			i = len(l.rest) - 1
		}
		if i < 0 {
			return n, nil
		}
		text := strings.TrimRight(string(l.rest[:i+1]), "\r\n")
		l.rest = l.rest[i+1:]
		if strings.TrimSpace(text) == "" {
			continue
		}
		l.tail.mu.Lock()
		l.tail.text = text
		l.tail.mu.Unlock()
		if l.log.GetSink() != nil {
			l.log.Info(text)
		}
	}
}
