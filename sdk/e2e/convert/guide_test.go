package convert

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

const guide = "../../../docs/from-kubebuilder.md"

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// requireInGuide checks that the guide contains the line, whose figures the tests have measured.
func requireInGuide(t *testing.T, line string) {
	t.Helper()
	if !strings.Contains(read(t, guide), "\n"+line+"\n") {
		t.Errorf("%s lacks the measured line:\n%s", guide, line)
	}
}

// row returns a row of a table of the guide.
func row(what string, cells ...any) string {
	line := &strings.Builder{}
	fmt.Fprintf(line, "| %s |", what)
	for _, cell := range cells {
		fmt.Fprintf(line, " %v |", cell)
	}
	return line.String()
}

// fence matches a code block of the guide, with the names of its files.
var fence = regexp.MustCompile("(?ms)^```(go|diff) (.+?)\n(.*?)^```$")

// Each Go snippet is part of a compiled file, and each diff is a difference between two of them.
func TestSnippets(t *testing.T) {
	t.Parallel()
	found := fence.FindAllStringSubmatch(read(t, guide), -1)
	if len(found) == 0 {
		t.Fatalf("%s has no snippet", guide)
	}
	for _, m := range found {
		files, text := strings.Fields(m[2]), m[3]
		if m[1] == "go" {
			contains(t, files[0], text)
			continue
		}
		for hunk := range strings.SplitSeq(text, "@@\n") {
			old, changed := sides(hunk)
			contains(t, files[0], old)
			contains(t, files[1], changed)
			if old == changed {
				t.Errorf("%s: no line differs:\n%s", guide, hunk)
			}
		}
	}
}

func contains(t *testing.T, file, text string) {
	t.Helper()
	if !strings.Contains(read(t, file), text) {
		t.Errorf("a snippet of %s is not in %s:\n%s", guide, file, text)
	}
}

// sides returns the text of a hunk in the old file and in the new file.
func sides(hunk string) (old, changed string) {
	for line := range strings.Lines(hunk) {
		switch sign, rest := line[:1], line[1:]; sign {
		case "-":
			old += rest
		case "+":
			changed += rest
		default:
			old += rest
			changed += rest
		}
	}
	return old, changed
}

func TestSides(t *testing.T) {
	t.Parallel()
	old, changed := sides(" same\n-a\n+b\n same\n")
	if old != "same\na\nsame\n" || changed != "same\nb\nsame\n" {
		t.Errorf("got %q and %q", old, changed)
	}
}

// code counts the lines of a Go file without blank lines, comments, the package clause and imports.
func code(t *testing.T, file string) int {
	t.Helper()
	source := read(t, file)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	head := files.Position(parsed.Name.End()).Line
	if n := len(parsed.Decls); n > 0 {
		head = files.Position(parsed.Decls[n-1].End()).Line
	}
	var s scanner.Scanner
	tokens := token.NewFileSet().AddFile(file, -1, len(source))
	s.Init(tokens, []byte(source), nil, 0)
	lines := map[int]bool{}
	for {
		pos, kind, _ := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if line := tokens.Line(pos); line > head {
			lines[line] = true
		}
	}
}

func TestLinesOfCode(t *testing.T) {
	t.Parallel()
	children := code(t, "desired/desired.go")
	programs := [2]int{code(t, "cmd/before/main.go"), code(t, "cmd/after/main.go")}
	var operators, totals []any
	for i, f := range forms {
		lines := code(t, f.name+"/webapp.go")
		total := lines + programs[i/(len(forms)-1)]
		if i > 0 {
			total += children
		}
		operators, totals = append(operators, lines), append(totals, fmt.Sprintf("**%d**", total))
	}
	requireInGuide(t, row("the operator", operators...))
	requireInGuide(t, row("what its children look like", "-", children, children, children, children))
	requireInGuide(t, row("`main`", programs[0], programs[0], programs[0], programs[0], programs[1]))
	requireInGuide(t, row("**together**", totals...))
	before, after := code(t, "before/webapp.go"), code(t, "after/webapp.go")+children
	requireInGuide(t, fmt.Sprintf("without `main` it is %d lines for %d, **%d %%**; with `main` %d for %d, **%d %%**.",
		after, before, percent(after, before), after+programs[1], before+programs[0],
		percent(after+programs[1], before+programs[0])))
}

func percent(part, whole int) int { return int(math.Round(100 * float64(part) / float64(whole))) }
