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
	// maxLine is the maximum length of a line in bytes. Some loggers print whole objects.
	maxLine = 64 << 10
	// tailLines is the number of retained lines.
	tailLines = 20
	// drainTimeout is the time for reading the remaining output after the exit. It matters only if a process that left the
	// group holds the output.
	drainTimeout = 2 * time.Second
)

// A Line is one line of an operator's output.
type Line struct {
	// At is the time of reading, some microseconds after printing.
	At time.Time
	// Stderr is true for the standard error.
	Stderr bool
	// Text is the line without its end. After 64 KiB it is cut off and ends with "...". Invalid UTF-8 is replaced.
	Text string
}

// output reads the output of a command.
type output struct {
	onLine  func(Line)
	readers []*os.File
	writers []*os.File
	reading sync.WaitGroup

	calls sync.Mutex // serializes the calls of onLine

	mu        sync.Mutex
	lastLines []Line
	errs      []error
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
		o.readers = append(o.readers, r)
		o.writers = append(o.writers, w)
		*stream = w
		isErr := stream == &cmd.Stderr
		o.reading.Go(func() { o.read(r, isErr) })
	}
	return o, nil
}

// closeWriters closes this process's copies of the write ends, so that reading ends with the command.
func (o *output) closeWriters() {
	for _, w := range o.writers {
		_ = w.Close() // nothing was written here
	}
}

// drain waits until all output has been read, or until a timeout.
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

// readLine returns the next line, or nil at the end.
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
	if len(o.lastLines) == tailLines {
		o.lastLines = slices.Delete(o.lastLines, 0, 1)
	}
	o.lastLines = append(o.lastLines, line)
	o.mu.Unlock()
	if o.onLine != nil {
		o.onLine(line)
	}
}

func (o *output) tail() []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lastLines)
}
