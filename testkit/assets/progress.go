package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress is one report of a search, a download or a build.
type Progress struct {
	// Phase is the current part of the work, for example "compiling packages".
	Phase string
	// Done counts the finished units of the phase, for example packages. Total is their maximum: units in Go's build
	// cache are not counted. Both are 0 for a phase without a count.
	Done, Total int
	// Notice is a sentence worth keeping; if it is set, the other fields except Elapsed are empty.
	Notice string
	// Elapsed is the time since Find was called.
	Elapsed time.Duration
	// Final marks the last report.
	Final bool
}

// String renders the report as one line.
func (p Progress) String() string {
	what := p.Notice
	switch {
	case what != "":
	case p.Total > 0:
		what = fmt.Sprintf("%s: %d of at most %d", p.Phase, p.Done, p.Total)
	case p.Done > 0:
		what = fmt.Sprintf("%s: %d", p.Phase, p.Done)
	default:
		what = p.Phase
	}
	return fmt.Sprintf("[%6s] %s", p.Elapsed.Round(time.Second), what)
}

// heartbeat is the interval between reports of a long phase.
const heartbeat = time.Second

// reporter calls the user's function. It is safe for concurrent use.
type reporter struct {
	progress func(Progress)
	start    time.Time

	mu       sync.Mutex
	current  Progress
	reported bool
}

func newReporter(f func(Progress)) *reporter {
	if f == nil {
		f = func(Progress) {}
	}
	return &reporter{progress: f, start: time.Now()}
}

func (r *reporter) send(p Progress) {
	p.Elapsed = time.Since(r.start)
	r.reported = true
	r.progress(p)
}

// notice reports a sentence.
func (r *reporter) notice(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send(Progress{Notice: fmt.Sprintf(format, args...)})
}

// startPhase starts a phase and reports it with its count at each heartbeat until stop is called.
func (r *reporter) startPhase(name string, total int) (stop func()) {
	r.mu.Lock()
	r.current = Progress{Phase: name, Total: total}
	r.send(r.current)
	r.mu.Unlock()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				r.mu.Lock()
				r.send(r.current)
				r.mu.Unlock()
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// count sets the number of finished units of the current phase.
func (r *reporter) count(done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Done = done
}

// renamePhase replaces the current phase by another.
func (r *reporter) renamePhase(name string, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = Progress{Phase: name, Total: total}
	r.send(r.current)
}

// end sends the final report, unless nothing was reported before.
func (r *reporter) end(p *product, set Set, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reported {
		return
	}
	result := "the " + p.title + " " + p.verb + " in " + set.Dir
	switch {
	case errors.Is(err, context.Canceled):
		result = "interrupted; run it again to go on where it stopped"
	case err != nil:
		result = "there " + p.verb + " no " + p.title
	}
	r.send(Progress{Notice: result, Final: true})
}

// printInterval is the interval between lines of one phase where lines cannot be rewritten, for example in a CI log.
const printInterval = 15 * time.Second

// Print returns a function for Options.Progress that writes lines to w. On a terminal a phase rewrites its own line.
// Otherwise it is printed when it begins and then four times a minute.
func Print(w io.Writer) func(Progress) {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return printRewriting(w)
	}
	return printLines(w)
}

func printRewriting(w io.Writer) func(Progress) {
	const erase = "\r\x1b[K"
	return func(p Progress) {
		end := ""
		if p.Notice != "" {
			end = "\n"
		}
		_, _ = fmt.Fprint(w, erase+p.String()+end)
	}
}

func printLines(w io.Writer) func(Progress) {
	var phase string
	var printed time.Duration
	return func(p Progress) {
		if p.Notice == "" && p.Phase == phase && p.Elapsed-printed < printInterval {
			return
		}
		phase = p.Phase
		printed = p.Elapsed
		_, _ = fmt.Fprintln(w, p)
	}
}
