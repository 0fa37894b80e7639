package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// progress reports the progress of an exploration: a line for each run or, on a terminal, a bar that is redrawn. It is
// safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal *os.File // the terminal, or nil

	mu     sync.Mutex
	drawn  bool
	failed int
	causes map[string]bool // of the violations so far
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, causes: map[string]bool{}}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		p.terminal = file
	}
	return p
}

// say prints a permanent line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(format, args...)
}

// print is say for a caller that holds p.mu.
func (p *progress) print(format string, args ...any) {
	p.erase()
	fmt.Fprintf(p.w, "testkit: "+format+"\n", args...)
}

// learned reports the end of a run without a fault.
func (p *progress) learned(run report.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print("%s %s (%.1f s)", run.Name, run.Outcome, run.Duration.Seconds())
	p.found(run)
}

// found reports the violations of a run with new causes: the first one of all with its details, without the timeline. The
// caller holds p.mu.
func (p *progress) found(run report.Run) {
	for _, v := range run.Violations {
		if p.causes[v.CauseKey()] {
			continue
		}
		p.causes[v.CauseKey()] = true
		if len(p.causes) > 1 {
			p.print("finding %d: %s: %s (%s)", len(p.causes), v.Oracle, report.Line(v.Message), run.Name)
			continue
		}
		p.print("the first finding:")
		run.Timeline = nil
		run.Violations = []report.Violation{v}
		// An error is one of the terminal, and the next line reports it as well.
		_ = report.WriteText(p.w, &report.Report{Runs: []report.Run{run}}, report.OnlyFailures())
	}
}

// planned reports the number of plans to try.
func (p *progress) planned(plans int) {
	switch plans {
	case 0:
	case 1:
		p.say("trying 1 plan")
	default:
		p.say("trying %d plans", plans)
	}
}

// step reports the end of a run.
func (p *progress) step(done, total int, run report.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if run.Outcome == report.Failed {
		p.failed++
	}
	if p.terminal == nil {
		fmt.Fprintf(p.w, "%3d/%d %-7s %s (%.1f s)\n", done, total, run.Outcome, run.Name, run.Duration.Seconds())
		p.found(run)
		return
	}
	p.erase()
	p.found(run)
	width, _ := sizeOf(p.terminal)
	fmt.Fprint(p.w, bar(width, done, total, p.failed, run.Name))
	p.drawn = true
}

// end removes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r"+eraseBelow)
	}
	p.drawn = false
}

// bar formats the progress in one line of that width.
func bar(width, done, total, failed int, last string) string {
	const cells = 30
	full := cells * done / max(total, 1)
	line := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", cells-full), done, total)
	if failed > 0 {
		line += fmt.Sprintf(", %d failed", failed)
	}
	line += "  " + last
	if r := []rune(line); len(r) >= width {
		line = string(r[:max(width-1, 0)])
	}
	return line
}
