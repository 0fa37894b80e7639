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

// A view shows a sandbox and its changes. On a terminal a table stays at the bottom and is redrawn. Otherwise there is
// one line for each change. It is safe for concurrent use.
type view interface {
	// report prints a permanent line, with the time.
	report(line string)
	// keep prints a text whose first parts are the most important. Below a table they stay visible until end, as far as
	// there is room.
	keep(parts []string)
	// show updates the table.
	show(s snapshot)
	// end removes the table. Later reports stay.
	end()
}

// newView returns the view that suits the output.
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
	rows map[string]string // last printed state of each object
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

// describe formats a row without the columns that change by themselves.
func describe(columns []string, row sandbox.Row) string {
	var b strings.Builder
	for i, column := range columns {
		if i > 1 && column != sandbox.AgeColumn && row.Cells[i] != "" {
			fmt.Fprintf(&b, " %s=%s", strings.ReplaceAll(column, " ", "_"), row.Cells[i])
		}
	}
	return b.String()
}

// liveView redraws a table in place, with the kept text below it.
type liveView struct {
	mu       sync.Mutex
	file     *os.File
	snapshot *snapshot // nil before the first snapshot
	kept     []string
	drawn    int // lines on the screen
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
	v.snapshot = &s
	v.draw()
}

func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.snapshot = nil
	v.kept = nil
}

func (v *liveView) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.file, lineUp+"\r"+eraseBelow, v.drawn)
	}
	v.drawn = 0
}

func (v *liveView) draw() {
	width, height := sizeOf(v.file)
	lines := layout(v.snapshot, v.kept, width, height)
	if len(lines) == 0 {
		return
	}
	_, _ = v.file.WriteString(strings.Join(lines, "\n") + "\n")
	v.drawn = lineCount(lines, width)
}

// sizeOf returns the size of a terminal, or the usual default for one without a window size.
func sizeOf(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// layout fits a table, and the kept text below it, to the size of a terminal, so that it can be redrawn in place. If
// there is not room for all, the table leaves half of it to the parts of the text that fit. The first part is always
// shown.
func layout(current *snapshot, kept []string, width, height int) []string {
	var table, below []string
	if current != nil {
		table = strings.Split(strings.TrimRight(render(*current, width), "\n"), "\n")
	}
	room := max(height-1, 1)
	free := max(room-len(table), room/2)
	for i, part := range kept {
		lines := strings.Split("\n"+part, "\n")
		if n := lineCount(lines, width); n <= free || i == 0 {
			below, free = append(below, lines...), free-n
		}
	}
	if room = max(room-lineCount(below, width), 1); len(table) > room {
		rest := fmt.Sprintf("... and %d more lines", len(table)-room+1)
		table = append(table[:room-1:room-1], rest)
	}
	return append(table, below...)
}

// lineCount returns the number of lines on a terminal that wraps long ones.
func lineCount(lines []string, width int) int {
	n := 0
	for _, line := range lines {
		n += max((utf8.RuneCountInString(line)+width-1)/width, 1)
	}
	return n
}

// render draws operators and tables in lines shorter than the width.
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
		fmt.Fprintln(&b, truncate("operator "+op.Name+" "+state, width-1))
	}
	if s.Problem != "" {
		fmt.Fprintf(&b, "\n%s\n", truncate(s.Problem, width-1))
	}
	for _, table := range s.Tables {
		fmt.Fprintf(&b, "\n%s\n", truncate(table.Kind, width-1))
		rows := [][]string{table.Columns}
		for _, row := range table.Rows {
			rows = append(rows, row.Cells)
		}
		if _, total := naturalWidths(rows); total > width-1 && allInDefault(table) {
			for i := range rows {
				rows[i] = rows[i][1:] // kubectl shows no namespace then, either
			}
		}
		widths := columnWidths(rows, width-1)
		for _, row := range rows {
			var line strings.Builder
			for i, cell := range row {
				fmt.Fprintf(&line, "%-*s", widths[i]+columnGap, truncate(cell, widths[i]))
			}
			fmt.Fprintln(&b, truncate(strings.TrimRight(line.String(), " "), width-1))
		}
	}
	return b.String()
}

const (
	// columnGap is the space between two columns.
	columnGap = 2
	// columnLeast is the minimum width of a column that needs it.
	columnLeast = 10
)

// allInDefault reports whether all objects are in the namespace default, so that its column is redundant.
func allInDefault(table sandbox.Table) bool {
	return !slices.ContainsFunc(table.Rows, func(r sandbox.Row) bool { return r.Namespace != metav1.NamespaceDefault })
}

// naturalWidths returns the width of each column that shows all of its cells, and their sum.
func naturalWidths(rows [][]string) (widths []int, total int) {
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

// columnWidths returns the width of each column. The widest ones shrink until all fit, or none can shrink any more.
func columnWidths(rows [][]string, width int) []int {
	widths, total := naturalWidths(rows)
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

// truncate shortens a text and marks the cut.
func truncate(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:max(width-1, 0)]) + "…"
	}
	return text
}
