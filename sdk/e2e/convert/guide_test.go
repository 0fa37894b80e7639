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

// documented checks that the guide has the line: its figures are those of the tests.
func documented(t *testing.T, line string) {
	t.Helper()
	if !strings.Contains(read(t, guide), "\n"+line+"\n") {
		t.Errorf("%s lacks the line that this test found:\n%s", guide, line)
	}
}

// row is one of a table of the guide.
func row(what string, cells ...any) string {
	line := &strings.Builder{}
	fmt.Fprintf(line, "| %s |", what)
	for _, cell := range cells {
		fmt.Fprintf(line, " %v |", cell)
	}
	return line.String()
}

// A fence is a block of the guide, with the files that it is from.
var fence = regexp.MustCompile("(?ms)^```(go|diff) (.+?)\n(.*?)^```$")

// Each snippet is part of a file that is compiled, each difference is one between two of them.
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
		t.Errorf("%s quotes what is not in %s:\n%s", guide, file, text)
	}
}

// sides returns what a hunk says of the old file and of the new one.
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

// code counts the lines of a Go file that are neither blank nor comment, package clause or imports.
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
	documented(t, row("the operator", operators...))
	documented(t, row("what its children look like", "-", children, children, children, children))
	documented(t, row("`main`", programs[0], programs[0], programs[0], programs[0], programs[1]))
	documented(t, row("**together**", totals...))
	before, after := code(t, "before/webapp.go"), code(t, "after/webapp.go")+children
	documented(t, fmt.Sprintf("without `main` it is %d lines for %d, **%d %%**; with `main` %d for %d, **%d %%**.",
		after, before, percent(after, before), after+programs[1], before+programs[0],
		percent(after+programs[1], before+programs[0])))
}

func percent(part, whole int) int { return int(math.Round(100 * float64(part) / float64(whole))) }
