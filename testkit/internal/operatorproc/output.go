package operatorproc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is how many bytes of a line are kept. Some loggers print whole objects.
	maxLine = 64 << 10
	// tailLines is how many lines are kept.
	tailLines = 20
	// drainTimeout is how long what was printed before the end may take to be read. It only matters if a process that
	// has left the group still holds the output.
	drainTimeout = 2 * time.Second
)

// A Line is what an operator printed, up to a line break.
type Line struct {
	// At is when it was read, which is some microseconds after it was printed.
	At time.Time
	// Stderr says that it was printed to the standard error and not to the standard output.
	Stderr bool
	// Text is the line without its end. Of one that is longer than 64 KiB it is the beginning, followed by "...".
	// What is not UTF-8 is replaced.
	Text string
}

// output reads what a command prints.
type output struct {
	onLine  func(Line)
	readers []*os.File
	writers []*os.File
	reading sync.WaitGroup

	calls sync.Mutex // one line at a time

	mu   sync.Mutex
	last []Line
	errs []error
}

// newOutput connects the output of a command that has not been started.
func newOutput(cmd *exec.Cmd, onLine func(Line)) (*output, error) {
	o := &output{onLine: onLine}
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			o.closeWriters()
			return nil, errors.Join(fmt.Errorf("connecting the operator's output: %w", err), o.drain())
		}
		o.readers, o.writers = append(o.readers, r), append(o.writers, w)
		*stream = w
		isErr := stream == &cmd.Stderr
		o.reading.Go(func() { o.read(r, isErr) })
	}
	return o, nil
}

// closeWriters gives up this process's hold on what the command writes to, so that reading ends when the command does.
func (o *output) closeWriters() {
	for _, w := range o.writers {
		_ = w.Close() // nothing was written here
	}
}

// drain returns when everything has been read, or time is up.
func (o *output) drain() error {
	for _, r := range o.readers {
		if err := r.SetReadDeadline(time.Now().Add(drainTimeout)); err != nil {
			o.fail(err)
		}
	}
	o.reading.Wait()
	for _, r := range o.readers {
		o.fail(r.Close())
	}
	return errors.Join(o.errs...)
}

func (o *output) fail(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, fmt.Errorf("reading what the operator prints: %w", err))
}

func (o *output) read(file *os.File, isErr bool) {
	reader := bufio.NewReaderSize(file, maxLine)
	for {
		text, err := readLine(reader)
		if text != nil {
			o.report(Line{At: time.Now(), Stderr: isErr, Text: *text})
		}
		if err != nil {
			o.fail(err)
			return
		}
	}
}

// readLine returns nil if there was nothing before the end.
func readLine(reader *bufio.Reader) (*string, error) {
	data, err := reader.ReadSlice('\n')
	if len(data) == 0 {
		return nil, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(strings.ToValidUTF8(string(data), "\uFFFD"), "\n"), "\r")
	if errors.Is(err, bufio.ErrBufferFull) {
		text += "..."
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
	}
	return &text, err
}

func (o *output) report(line Line) {
	o.calls.Lock()
	defer o.calls.Unlock()
	o.mu.Lock()
	if len(o.last) == tailLines {
		o.last = slices.Delete(o.last, 0, 1)
	}
	o.last = append(o.last, line)
	o.mu.Unlock()
	if o.onLine != nil {
		o.onLine(line)
	}
}

func (o *output) tail() []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.last)
}
