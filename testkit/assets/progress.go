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

// Progress is one piece of news about a search, a download or a build.
type Progress struct {
	// Step is what is being done, for example "compiling packages".
	Step string
	// Done counts what is done of the step, for example packages. Total is what there is at most: what earlier builds
	// left in Go's build cache is not counted again. Both are 0 where nothing is counted.
	Done, Total int
	// Notice is a sentence that is worth keeping; the other fields but Elapsed are empty then.
	Notice string
	// Elapsed is the time since Find was called.
	Elapsed time.Duration
	// Final marks the last piece of news.
	Final bool
}

// String renders the news as one line.
func (p Progress) String() string {
	what := p.Notice
	switch {
	case what != "":
	case p.Total > 0:
		what = fmt.Sprintf("%s: %d of at most %d", p.Step, p.Done, p.Total)
	case p.Done > 0:
		what = fmt.Sprintf("%s: %d", p.Step, p.Done)
	default:
		what = p.Step
	}
	return fmt.Sprintf("[%6s] %s", p.Elapsed.Round(time.Second), what)
}

// heartbeat is how often a step that takes its time is reported.
const heartbeat = time.Second

// reporter tells the user's function what goes on. Its methods may be called from several goroutines.
type reporter struct {
	tell  func(Progress)
	start time.Time

	mu      sync.Mutex
	current Progress
	told    bool
}

func newReporter(tell func(Progress)) *reporter {
	if tell == nil {
		tell = func(Progress) {}
	}
	return &reporter{tell: tell, start: time.Now()}
}

func (r *reporter) send(p Progress) {
	p.Elapsed = time.Since(r.start)
	r.told = true
	r.tell(p)
}

// notice tells a sentence.
func (r *reporter) notice(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send(Progress{Notice: fmt.Sprintf(format, args...)})
}

// step begins a step and repeats it until stop is called, with what count says by then.
func (r *reporter) step(name string, total int) (stop func()) {
	r.mu.Lock()
	r.current = Progress{Step: name, Total: total}
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

// count says how much of the current step is done.
func (r *reporter) count(done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Done = done
}

// rename goes on to another step, which is repeated in place of the last one.
func (r *reporter) rename(name string, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = Progress{Step: name, Total: total}
	r.send(r.current)
}

// end tells the last piece of news, unless there was no news at all.
func (r *reporter) end(set Set, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told {
		return
	}
	result := "the control plane is in " + set.Dir
	switch {
	case errors.Is(err, context.Canceled):
		result = "interrupted; run it again to go on where it stopped"
	case err != nil:
		result = "there is no control plane"
	}
	r.send(Progress{Notice: result, Final: true})
}

// printInterval is how often a step is printed where lines cannot be rewritten, for example in the log of a CI job.
const printInterval = 15 * time.Second

// Print returns a function for Options.Progress that writes lines to w. On a terminal a step rewrites its own line;
// elsewhere it is printed when it begins, and then four times a minute.
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
	var step string
	var printed time.Duration
	return func(p Progress) {
		if p.Notice == "" && p.Step == step && p.Elapsed-printed < printInterval {
			return
		}
		step, printed = p.Step, p.Elapsed
		_, _ = fmt.Fprintln(w, p)
	}
}
