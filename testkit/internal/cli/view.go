package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A view shows a sandbox and what happens in it. On a terminal a table stays at the bottom and is redrawn; elsewhere
// there is one line for each change. Its methods may be called from several goroutines.
type view interface {
	// report prints a line that stays, with the time.
	report(line string)
	// keep prints a text, of which the parts that come first matter most. Below a table they stay in sight, as many as there
	// is room for, until end.
	keep(parts []string)
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

func (v *lineView) keep(parts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = fmt.Fprintf(v.w, "\n%s\n\n", strings.Join(parts, "\n\n"))
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

// liveView redraws a table in place, with what is kept below it.
type liveView struct {
	mu    sync.Mutex
	file  *os.File
	shot  *snapshot // nil before there is anything to show
	kept  []string
	drawn int // lines on the screen
}

const (
	eraseBelow = "\x1b[J"
	lineUp     = "\x1b[%dA"
)

func (v *liveView) report(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	_, _ = fmt.Fprintf(v.file, "%s %s\n", time.Now().Format(time.TimeOnly), line)
	v.draw()
}

func (v *liveView) keep(parts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.kept = parts
	v.draw()
}

func (v *liveView) show(s snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.shot = &s
	v.draw()
}

func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.shot, v.kept = nil, nil
}

func (v *liveView) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.file, lineUp+"\r"+eraseBelow, v.drawn)
	}
	v.drawn = 0
}

func (v *liveView) draw() {
	width, height := sizeOf(v.file)
	lines := layout(v.shot, v.kept, width, height)
	if len(lines) == 0 {
		return
	}
	_, _ = v.file.WriteString(strings.Join(lines, "\n") + "\n")
	v.drawn = high(lines, width)
}

// sizeOf is how large a terminal is, and what used to be usual for one that does not know, because it has no window.
func sizeOf(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// layout fits a table, and below it what is kept, to the size of a terminal, so that it can be found again. If there is not
// room for all, the table leaves half of it, in which as many parts are shown as fit; the first always is.
func layout(shot *snapshot, kept []string, width, height int) []string {
	var table, below []string
	if shot != nil {
		table = strings.Split(strings.TrimRight(render(*shot, width), "\n"), "\n")
	}
	room := max(height-1, 1)
	free := max(room-len(table), room/2)
	for i, part := range kept {
		lines := strings.Split("\n"+part, "\n")
		if n := high(lines, width); n <= free || i == 0 {
			below, free = append(below, lines...), free-n
		}
	}
	if room = max(room-high(below, width), 1); len(table) > room {
		rest := fmt.Sprintf("... and %d more lines", len(table)-room+1)
		table = append(table[:room-1:room-1], rest)
	}
	return append(table, below...)
}

// high is how many lines these take on a terminal that breaks long ones.
func high(lines []string, width int) int {
	n := 0
	for _, line := range lines {
		n += max((utf8.RuneCountInString(line)+width-1)/width, 1)
	}
	return n
}

// render draws operators and tables, with lines shorter than the width.
func render(s snapshot, width int) string {
	var b strings.Builder
	if len(s.Operators) > 0 {
		b.WriteString("\n")
	}
	for _, op := range s.Operators {
		state := fmt.Sprintf("runs as process %d", op.PID)
		switch {
		case op.PID == 0 && op.Restarts == 0:
			state = "has not started yet"
		case op.PID == 0:
			state = "waits to start again"
		}
		if op.Restarts > 0 {
			state += fmt.Sprintf(", %d restarts", op.Restarts)
		}
		fmt.Fprintln(&b, cut("operator "+op.Name+" "+state, width-1))
	}
	if s.Problem != "" {
		fmt.Fprintf(&b, "\n%s\n", cut(s.Problem, width-1))
	}
	for _, table := range s.Tables {
		fmt.Fprintf(&b, "\n%s\n", cut(table.Kind, width-1))
		rows := [][]string{table.Columns}
		for _, row := range table.Rows {
			rows = append(rows, row.Cells)
		}
		if _, total := natural(rows); total > width-1 && everywhereDefault(table) {
			for i := range rows {
				rows[i] = rows[i][1:] // kubectl shows no namespace then, either
			}
		}
		widths := columns(rows, width-1)
		for _, row := range rows {
			var line strings.Builder
			for i, cell := range row {
				fmt.Fprintf(&line, "%-*s", widths[i]+columnGap, cut(cell, widths[i]))
			}
			fmt.Fprintln(&b, cut(strings.TrimRight(line.String(), " "), width-1))
		}
	}
	return b.String()
}

const (
	// columnGap is the space between two columns.
	columnGap = 2
	// columnLeast is what each column has at least, if it needs that much.
	columnLeast = 10
)

// everywhereDefault says whether all objects are in the namespace default, so that its column tells nothing.
func everywhereDefault(table sandbox.Table) bool {
	return !slices.ContainsFunc(table.Rows, func(r sandbox.Row) bool { return r.Namespace != metav1.NamespaceDefault })
}

// natural returns how wide each column has to be to show all of its cells, and all of them together.
func natural(rows [][]string) (widths []int, total int) {
	widths = make([]int, len(rows[0]))
	total = columnGap * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		total += widths[i]
	}
	return widths, total
}

// columns returns how wide each column is: the widest ones give way until all fit, or none is left that can.
func columns(rows [][]string, width int) []int {
	widths, total := natural(rows)
	for ; total > width; total-- {
		widest := 0
		for i := range widths {
			if widths[i] >= widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= columnLeast {
			break
		}
		widths[widest]--
	}
	return widths
}

// cut shortens a text and marks where.
func cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return text
}
