package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
)

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"seconds": seconds,
	"offset":  offset,
	"count":   count,
	"join":    func(ids []string) string { return strings.Join(ids, " ") },
}).Parse(pageTemplate))

// WriteHTML writes one self-contained page that loads nothing and needs no scripts. Scripts add keyboard and mouse
// control of the drawings, and a button to copy a command.
func WriteHTML(w io.Writer, r *Report) error { return writeHTML(w, r, mostRows) }

func writeHTML(w io.Writer, r *Report, rows int) error {
	var b bytes.Buffer
	if err := page.Execute(&b, newPageView(r.printable(), rows)); err != nil {
		return fmt.Errorf("writing the report as HTML: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the report as HTML: %w", err)
	}
	return nil
}

// pageView is the report in the form of the template.
type pageView struct {
	*Report

	Policy template.HTMLAttr
	Style  template.CSS
	Script template.JS
	Groups []groupView
	Faults []faultView
	NotRun int

	FindingViews []findingView
}

// findingView is a finding with links to its runs.
type findingView struct {
	Finding

	Links []linkView
}

type linkView struct{ ID, Name string }

// groupView holds the runs with one outcome.
type groupView struct {
	Outcome Outcome
	Meaning string
	Runs    []runView
}

// faultView is a kind of fault in the page's filter.
type faultView struct {
	ID           string
	Name         string
	Runs, Failed int
}

type runView struct {
	Run

	ID, FaultID    string
	Open           bool
	ViolationViews []violationView
	Drawing        *drawing
	Spans          []spanView
	Shown          int  // entries in the table before more are requested
	HasAllRows     bool // the others are in the page
}

type violationView struct {
	Violation

	Lines []diffLine
}

type diffLine struct{ Class, Text string }

type spanView struct {
	ID       string
	Omission string    // empty if the span is shown
	Rows     []rowView // empty if the span is not in the page
}

type rowView struct {
	Entry

	ID   string
	More string // the part of the text that does not fit in a line
}

// pageWindow shows more than a terminal, but not everything: a browser needs seconds for 150 drawings and 30000 rows.
var pageWindow = window{around: 5, first: 12, last: 4, changes: 4, end: 12}

const (
	longestRow = 400   // characters of a text that are shown at first
	mostRows   = 10000 // of all tables, before irrelevant spans are omitted from the page
)

var meanings = []groupView{
	{Outcome: Failed, Meaning: "the operator broke a promise"},
	{Outcome: Untried, Meaning: "the fault never came about, so these runs say nothing"},
	{Outcome: Passed, Meaning: "the operator coped"},
}

// newPageView omits irrelevant spans if there are more entries than rows.
func newPageView(r *Report, rows int) *pageView {
	v := &pageView{Report: r, NotRun: r.notRun(), Groups: slices.Clone(meanings)}
	for i := range v.Groups { // in this order, so that failed runs get their rows first
		g := &v.Groups[i]
		for j, run := range r.Runs {
			// An undocumented outcome counts as untried.
			known := slices.ContainsFunc(meanings, func(g groupView) bool { return g.Outcome == run.Outcome })
			if run.Outcome != g.Outcome && (known || g.Outcome != Untried) {
				continue
			}
			view := newRunView(run, runID(j), &rows)
			view.FaultID = v.fault(run)
			view.Open = run.Outcome == Failed && len(g.Runs) == 0
			g.Runs = append(g.Runs, view)
		}
	}
	v.FindingViews = findingViews(r)
	style := pageStyle + v.filters()
	v.Style = template.CSS(style)      //nolint:gosec // A constant: the names in the rules are those of this file.
	v.Script = template.JS(pageScript) //nolint:gosec // A constant, too.
	v.Policy = policy(style, pageScript)
	return v
}

// findingViews returns the findings with links to their runs.
func findingViews(r *Report) []findingView {
	ids := map[string]string{}
	for i, run := range r.Runs {
		ids[run.Name] = runID(i)
	}
	var views []findingView
	for _, f := range r.Findings() {
		view := findingView{Finding: f}
		for _, name := range f.Runs {
			view.Links = append(view.Links, linkView{ids[name], name})
		}
		views = append(views, view)
	}
	return views
}

// runID returns the ID of a run in the page.
func runID(i int) string { return fmt.Sprintf("r%d", i) }

// fault counts a run by the kind of its fault, and returns the ID of the kind.
func (v *pageView) fault(run Run) string {
	i := slices.IndexFunc(v.Faults, func(f faultView) bool { return f.Name == run.Fault })
	if i < 0 {
		i = len(v.Faults)
		v.Faults = append(v.Faults, faultView{ID: fmt.Sprintf("f%d", i), Name: run.Fault})
	}
	v.Faults[i].Runs++
	if run.Outcome == Failed {
		v.Faults[i].Failed++
	}
	return v.Faults[i].ID
}

// Headline returns the text of a run in the list of runs.
func (v runView) Headline() string {
	if len(v.Violations) > 0 {
		return v.Violations[0].Message
	}
	return cmp.Or(v.UntriedReason, v.Summary)
}

// policy returns a Content-Security-Policy for our style and script only, in case a text of the operator is not
// escaped.
func policy(style, script string) template.HTMLAttr {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	rules := fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; img-src data:; "+
		"base-uri 'none'; form-action 'none'", hash(style), hash(script))
	return template.HTMLAttr(`content="` + rules + `"`) //nolint:gosec // It has hashes in Base64, and nothing of the report.
}

// filters returns the CSS rules that hide filtered runs, and show a note where none is left. They need no script.
func (v *pageView) filters() string {
	var css strings.Builder
	rule := func(format string, args ...any) { fmt.Fprintf(&css, "body:has("+format+" }\n", args...) }
	for _, g := range v.Groups {
		rule("#only-%[1]s:checked) .group:not(.%[1]s) { display: none", g.Outcome)
		if len(g.Runs) == 0 {
			rule("#only-%[1]s:checked) .group.%[1]s > .empty { display: block", g.Outcome)
		}
	}
	for _, f := range v.Faults {
		rule("#only-%[1]s:checked) .run:not(.%[1]s) { display: none", f.ID)
		for _, g := range v.Groups {
			if slices.ContainsFunc(g.Runs, func(run runView) bool { return run.FaultID == f.ID }) {
				continue
			}
			rule("#only-%s:checked) .group.%s > :not(.empty) { display: none", f.ID, g.Outcome)
			rule("#only-%[1]s:checked):has(#only-%[2]s:checked) .group.%[2]s > .empty { display: block", f.ID, g.Outcome)
		}
	}
	return css.String()
}

// newRunView takes the rows of its table from the remaining rows of the page.
func newRunView(run Run, id string, rows *int) runView {
	v := runView{Run: run, ID: id, Drawing: draw(run.Timeline, run.Duration), HasAllRows: len(run.Timeline) <= *rows}
	for _, violation := range run.Violations {
		v.ViolationViews = append(v.ViolationViews, violationView{violation, diffLines(violation.Detail)})
	}
	targets := make([]string, len(run.Timeline))
	for i, s := range pageWindow.excerpt(run.Timeline) {
		view := spanView{ID: fmt.Sprintf("%ss%d", id, i)}
		if s.omitted {
			view.Omission = s.omission()
		} else {
			v.Shown += len(s.entries)
		}
		for j, e := range s.entries {
			if s.omitted && !v.HasAllRows {
				targets[s.first+j] = view.ID
				continue
			}
			row := newRowView(e, fmt.Sprintf("%se%d", id, s.first+j))
			targets[s.first+j] = row.ID
			view.Rows = append(view.Rows, row)
			*rows--
		}
		v.Spans = append(v.Spans, view)
	}
	if v.Drawing != nil {
		v.Drawing.link(func(i int) (string, bool) { return targets[i], strings.HasPrefix(targets[i], id+"e") })
	}
	return v
}

func newRowView(e Entry, id string) rowView {
	v := rowView{Entry: e, ID: id, More: e.Detail}
	if utf8.RuneCountInString(e.Text) > longestRow {
		v.Text = string([]rune(e.Text)[:longestRow]) + "…"
		v.More = strings.TrimSuffix(e.Text+"\n\n"+e.Detail, "\n\n")
	}
	return v
}

// diffLines gives each line of a diff its class, and the lines of another text none.
func diffLines(s string) []diffLine {
	if s == "" {
		return nil
	}
	isDiff := looksLikeDiff(s)
	var lines []diffLine
	for text := range strings.Lines(s) {
		line := diffLine{Text: text}
		if isDiff {
			line.Class = diffClass(text)
		}
		lines = append(lines, line)
	}
	return lines
}
