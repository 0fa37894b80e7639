package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// TextOption configures WriteText.
type TextOption func(*text)

// Verbose adds a line for each run at the beginning.
func Verbose() TextOption { return func(t *text) { t.verbose = true } }

// Color adds ANSI colors. The text is complete without them.
func Color() TextOption { return func(t *text) { t.color = true } }

// OnlyFailures omits untried and skipped plans, and the counts.
func OnlyFailures() TextOption { return func(t *text) { t.failures = true } }

// Folded lists the reasons of skipped plans in one line, without the plans.
func Folded() TextOption { return func(t *text) { t.folded = true } }

// Timelines adds the timelines of passed runs, as far as the report has them.
func Timelines() TextOption { return func(t *text) { t.timelines = true } }

// WriteText writes for a terminal or a log: the first failed run of each cause with all details, and the names of the
// others, then the untried and skipped ones, and the counts in the last line.
func WriteText(w io.Writer, r *Report, opts ...TextOption) error {
	t := text{details: otherDetail}
	for _, opt := range opts {
		opt(&t)
	}
	t.writeReport(r.printable())
	if _, err := w.Write(t.Bytes()); err != nil {
		return fmt.Errorf("writing the report as text: %w", err)
	}
	return nil
}

// text is the state of a WriteText call.
type text struct {
	bytes.Buffer

	verbose, color, failures, folded, timelines bool

	details int     // lines below an ordinary entry of the timeline
	causes  *causes // nil for a run without a report
}

var textWindow = window{around: 3, first: 6, last: 2, changes: 2, end: 8}

// Limits for a terminal. The other formats of the report have the rest.
const (
	longestLine   = 300 // characters
	longestDetail = 100 // lines below a violation
	badDetail     = 20  // lines below a bad entry of the timeline
	otherDetail   = 3   // lines below an ordinary entry
	listed        = 8   // names that are listed before only their number is given
)

func (t *text) writeReport(r *Report) {
	if t.verbose {
		for _, run := range r.Runs {
			t.printf("%s %s (%s)\n", t.outcome(run.Outcome, "%-7s"), run.Name, seconds(run.Duration))
		}
		t.printf("\n")
	}
	t.causes = newCauses(r)
	for _, run := range r.Failures() {
		if !t.causes.introduces(run) {
			continue // its name is below the violation in the first run
		}
		t.printf("%s %s (%s)\n", t.outcome(Failed, "%s"), t.style(bold, run.Name), seconds(run.Duration))
		t.writeRun(run, "  ")
		t.printf("\n")
	}
	if t.timelines {
		for _, run := range r.runs(Passed) {
			t.printf("%s %s (%s)\n", t.outcome(Passed, "%s"), t.style(bold, run.Name), seconds(run.Duration))
			t.writeRun(run, "  ")
			t.printf("\n")
		}
	}
	if t.failures {
		return
	}
	if t.writeOmissions(r) {
		t.printf("\n")
	}
	t.printf("%s\n", t.summary(r))
}

// writeRun writes the details of a run below its name.
func (t *text) writeRun(run Run, indent string) {
	if run.Summary != "" {
		t.printf("%s%s\n", indent, clip(run.Summary))
	}
	for _, v := range run.Violations {
		t.printf("\n%s%s: %s\n", indent, t.style(red, v.Oracle), clip(v.Message))
		t.writeDetail(v.Detail, indent+"    ", longestDetail)
		t.writeOtherRuns(v, run.Name, indent+"    ")
	}
	if len(run.Timeline) > 0 {
		t.writeTimeline(run.Timeline, indent)
	}
	if note := run.AgainNote(); note != "" {
		t.printf("\n%s%s\n", indent, note)
	}
	if run.Replay != "" {
		t.printf("\n%sTo run this alone:\n%s    %s\n", indent, indent, run.Replay)
	}
}

// writeOtherRuns writes the names of other runs with the same cause.
func (t *text) writeOtherRuns(v Violation, run, indent string) {
	if t.causes == nil {
		return
	}
	finding := t.causes.of(v)
	switch all := finding.Runs; {
	case all[0] != run:
		t.printf("%sThe cause is that of %s.\n", indent, all[0])
	case len(all) > 1:
		t.printf("%sThe same cause in %s: %s\n", indent, count(len(all)-1, "other run", "other runs"), names(all[1:]))
		others := slices.DeleteFunc(slices.Clone(finding.Objects), func(o string) bool { return slices.Contains(v.Objects, o) })
		if len(others) > 0 {
			t.printf("%sIn some of them it is about: %s\n", indent, names(others))
		}
	}
}

func (t *text) writeTimeline(timeline []Entry, indent string) {
	t.printf("\n")
	t.writeSpans(timeline, textWindow.excerpt(timeline), indent)
}

func (t *text) writeSpans(timeline []Entry, spans []span, indent string) {
	shown := 0
	for _, s := range spans {
		if !s.omitted {
			shown += len(s.entries)
		}
	}
	t.printf("%sTimeline, ", indent)
	if shown < len(timeline) {
		t.printf("%d of %d entries", shown, len(timeline))
	} else {
		t.printf("%s", count(shown, "entry", "entries"))
	}
	t.printf(" (! is what to look at first):\n")
	for _, s := range spans {
		if s.omitted {
			t.printf("%s%s\n", indent, t.style(dim, "             ... "+s.omission()))
			continue
		}
		for _, e := range s.entries {
			t.writeEntry(e, indent)
		}
	}
}

// omission describes the contents of an omitted span.
func (s span) omission() string {
	said := count(len(s.entries), "entry", "entries") + " left out"
	if bad := s.bad(); bad > 0 {
		said += fmt.Sprintf(", %d of them marked !", bad)
	}
	return said
}

func (t *text) writeEntry(e Entry, indent string) {
	mark, most := " ", t.details
	written := fmt.Sprintf("%9s  %-8s  %s", offset(e.At), e.Lane, clip(e.Text))
	if e.Bad {
		mark, most, written = t.style(red, "!"), badDetail, t.style(bold, written)
	}
	t.printf("%s%s %s\n", indent, mark, written)
	t.writeDetail(e.Detail, indent+strings.Repeat(" ", 25), most)
}

// writeDetail writes a text of several lines, each with the indent.
func (t *text) writeDetail(detail, indent string, most int) {
	if detail == "" {
		return
	}
	lines := strings.Split(detail, "\n")
	left := 0
	if len(lines) > most+1 {
		left = len(lines) - most
		lines = lines[:most]
	}
	isDiff := looksLikeDiff(detail)
	for _, line := range lines {
		line = clip(line)
		if isDiff {
			line = t.style(map[string]string{added: green, removed: red}[diffClass(line)], line)
		}
		t.printf("%s\n", strings.TrimRight(indent+line, " \t"))
	}
	if left > 0 {
		t.printf("%s... %d more lines\n", indent, left)
	}
}

// writeOmissions writes the plans that were not tried, and reports whether there are any.
func (t *text) writeOmissions(r *Report) bool {
	start := t.Len()
	for _, s := range t.unfolded(r) {
		t.printf("%s not run because %s: %s\n", count(len(s.Plans), "plan", "plans"), s.Reason, names(s.Plans))
	}
	why := map[string][]string{}
	var order []string
	for _, run := range r.runs(Untried) {
		if len(why[run.UntriedReason]) == 0 {
			order = append(order, run.UntriedReason)
		}
		why[run.UntriedReason] = append(why[run.UntriedReason], run.Name)
	}
	for _, reason := range order {
		said := strings.TrimRight(cmp.Or(reason, notInjected), ".")
		t.printf("%s untried: %s: %s\n", count(len(why[reason]), "run", "runs"), said, names(why[reason]))
	}
	for _, note := range r.Notes {
		t.printf("note: %s\n", note)
	}
	return t.Len() > start
}

// unfolded returns the skipped plans to list. With several reasons, Folded replaces them by one line.
func (t *text) unfolded(r *Report) []Skipped {
	if !t.folded || len(r.Skipped) < 2 {
		return r.Skipped
	}
	reasons := make([]string, 0, len(r.Skipped))
	mostFirst := func(a, b Skipped) int { return len(b.Plans) - len(a.Plans) }
	for _, s := range slices.SortedStableFunc(slices.Values(r.Skipped), mostFirst) {
		reasons = append(reasons, fmt.Sprintf("%s (%d)", s.Reason, len(s.Plans)))
	}
	t.printf("%s not run because %s\n", count(r.notRun(), "plan", "plans"), strings.Join(reasons, "; "))
	return nil
}

func (t *text) summary(r *Report) string {
	failed := fmt.Sprintf("%d failed", r.Count(Failed))
	if n := r.Count(Failed); n > 0 {
		if all := len(r.Findings()); all < n {
			failed += " with " + count(all, "finding", "findings")
		}
		failed = t.style(red, failed)
	}
	counts := []string{failed, fmt.Sprintf("%d passed", r.Count(Passed))}
	if n := r.Count(Untried); n > 0 {
		counts = append(counts, fmt.Sprintf("%d untried", n))
	}
	said := fmt.Sprintf("%s: %s: %s", r.Operator, count(len(r.Runs), "run", "runs"), strings.Join(counts, ", "))
	if n := r.notRun(); n > 0 {
		said += "; " + count(n, "plan", "plans") + " not run"
	}
	return said + fmt.Sprintf("; seed %d; %s", r.Seed, seconds(r.Duration))
}

func (t *text) printf(format string, args ...any) { fmt.Fprintf(&t.Buffer, format, args...) }

// ANSI codes in use.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

func (t *text) style(code, s string) string {
	if !t.color || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *text) outcome(o Outcome, format string) string {
	return t.style(map[Outcome]string{Failed: red, Passed: green}[o], fmt.Sprintf(format, o))
}

// clip shortens a text that would fill the screen, and adds the number of omitted characters.
func clip(s string) string {
	n := utf8.RuneCountInString(s)
	if n <= longestLine {
		return s
	}
	return fmt.Sprintf("%s... (%d more characters)", string([]rune(s)[:longestLine]), n-longestLine)
}

// names lists the first few names.
func names(all []string) string {
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(slices.Clone(all[:listed]), ", "), len(all)-listed)
}

// notInjected is the default reason of an untried run.
const notInjected = "The fault never came about."

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds formats a duration, offset a point in time.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
func offset(d time.Duration) string  { return fmt.Sprintf("%.3fs", d.Seconds()) }
