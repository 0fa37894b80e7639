package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A view shows a sandbox and what happens in it. On a terminal a table stays at the bottom and is redrawn; elsewhere
// there is one line for each change. Its methods may be called from several goroutines.
type view interface {
	// report prints a line that stays, with the time.
	report(line string)
	// note prints a text that stays, as it is.
	note(text string)
	// show brings the table up to date.
	show(s snapshot)
	// end removes the table. What is reported afterwards stays.
	end()
}

// newView fits the view to where it is shown.
func newView(w io.Writer) view {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		return &liveView{file: file}
	}
	return &lineView{w: w, rows: map[string]string{}}
}

// lineView prints a line per change.
type lineView struct {
	mu   sync.Mutex
	w    io.Writer
	rows map[string]string // what was last said of an object
}

func (v *lineView) report(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.print(line)
}

func (v *lineView) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = fmt.Fprint(v.w, text)
}

func (v *lineView) print(line string) {
	_, _ = fmt.Fprintf(v.w, "%s %s\n", time.Now().Format(time.TimeOnly), line)
}

func (v *lineView) show(s snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Problem != "" {
		v.print(s.Problem)
		return
	}
	seen := map[string]bool{}
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			key := fmt.Sprintf("%s %s/%s", table.Kind, row.Namespace, row.Name)
			seen[key] = true
			if text := describe(table.Columns, row); text != v.rows[key] {
				v.rows[key] = text
				v.print(key + text)
			}
		}
	}
	for key := range v.rows {
		if !seen[key] {
			delete(v.rows, key)
			v.print(key + " is gone")
		}
	}
}

func (v *lineView) end() {}

// describe writes a row without what changes by itself.
func describe(columns []string, row sandbox.Row) string {
	var b strings.Builder
	for i, column := range columns {
		if i > 1 && column != sandbox.AgeColumn && row.Cells[i] != "" {
			fmt.Fprintf(&b, " %s=%s", strings.ReplaceAll(column, " ", "_"), row.Cells[i])
		}
	}
	return b.String()
}

// liveView redraws a table in place.
type liveView struct {
	mu    sync.Mutex
	file  *os.File
	table []string
	drawn int // lines of the table on the screen
}

const (
	eraseBelow = "\x1b[J"
	lineUp     = "\x1b[%dA"
)

func (v *liveView) report(line string) {
	v.note(fmt.Sprintf("%s %s\n", time.Now().Format(time.TimeOnly), line))
}

func (v *liveView) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	_, _ = fmt.Fprint(v.file, text)
	v.draw()
}

func (v *liveView) show(s snapshot) {
	table := strings.Split(strings.TrimRight(render(s), "\n"), "\n")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.table = table
	v.draw()
}

func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.table = nil
}

func (v *liveView) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.file, lineUp+"\r"+eraseBelow, v.drawn)
	}
	v.drawn = 0
}

// draw cuts the table to the size of the terminal, so that it can be found again.
func (v *liveView) draw() {
	width, height := sizeOf(v.file)
	lines := v.table
	if room := max(height-1, 1); len(lines) > room {
		rest := fmt.Sprintf("... and %d more lines", len(lines)-room+1)
		lines = append(append([]string{}, lines[:room-1]...), rest)
	}
	var b bytes.Buffer
	for _, line := range lines {
		if r := []rune(line); len(r) >= width {
			line = string(r[:max(width-1, 0)])
		}
		b.WriteString(line + "\n")
	}
	_, _ = v.file.Write(b.Bytes())
	v.drawn = len(lines)
}

// sizeOf is how large a terminal is, and what used to be usual for one that does not know, because it has no window.
func sizeOf(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// render draws operators and tables.
func render(s snapshot) string {
	var b strings.Builder
	for _, op := range s.Operators {
		state := fmt.Sprintf("pid %d", op.PID)
		if op.PID == 0 {
			state = "waits to start again"
		}
		fmt.Fprintf(&b, "\noperator %s: %s, %d restarts\n", op.Name, state, op.Restarts)
	}
	if s.Problem != "" {
		fmt.Fprintf(&b, "\n%s\n", s.Problem)
	}
	for _, table := range s.Tables {
		fmt.Fprintf(&b, "\n%s\n", table.Kind)
		w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		_, _ = fmt.Fprintln(w, strings.Join(table.Columns, "\t"))
		for _, row := range table.Rows {
			_, _ = fmt.Fprintln(w, strings.Join(row.Cells, "\t"))
		}
		_ = w.Flush()
	}
	return b.String()
}
