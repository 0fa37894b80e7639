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
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		p.terminal = file
	}
	return p
}

// say prints a permanent line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintf(p.w, "testkit: "+format+"\n", args...)
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
		return
	}
	p.erase()
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
