package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// colorCodes matches the escape codes of loggers. Removing them loses no text.
var colorCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// block returns a text of several lines that is safe to print anywhere. Characters that are not printable are escaped
// as in a Go string, for example "\x1b", so that they are visible and have no effect.
func block(s string) string {
	if isPlain(s) {
		return s
	}
	s = colorCodes.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\u00a0", " ") // go-cmp inserts them at random, to keep its format unstable
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// isPlain is the fast path of block.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// line is block for a single line.
func line(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(block(s)))
}

// Line returns a text in one line that is safe to print, as WriteText does.
func Line(s string) string { return clip(line(s)) }

// printable returns a copy in which every text is safe to print. The writers work on the copy, so that none of them
// misses a text.
func (r *Report) printable() *Report {
	p := *r
	p.Operator = line(r.Operator)
	p.Steps = lines(r.Steps)
	p.Notes = lines(r.Notes)
	p.Skipped = slices.Clone(r.Skipped)
	for i, s := range p.Skipped {
		p.Skipped[i] = Skipped{Reason: line(s.Reason), Plans: lines(s.Plans)}
	}
	p.Runs = slices.Clone(r.Runs)
	for i := range p.Runs {
		p.Runs[i] = p.Runs[i].printable()
	}
	return &p
}

func (r Run) printable() Run {
	r.Name = line(r.Name)
	r.Fault = line(r.Fault)
	r.Summary = line(r.Summary)
	r.UntriedReason = line(r.UntriedReason)
	r.Replay = line(r.Replay)
	r.Outcome = Outcome(line(string(r.Outcome)))
	r.Again = Outcome(line(string(r.Again)))
	r.Violations = slices.Clone(r.Violations)
	for i, v := range r.Violations {
		r.Violations[i] = Violation{
			Oracle: line(v.Oracle), Message: line(v.Message), Detail: trimmed(v.Detail), Cause: line(v.Cause), Part: line(v.Part),
			Objects: lines(v.Objects),
		}
	}
	r.Timeline = slices.Clone(r.Timeline)
	for i := range r.Timeline {
		e := &r.Timeline[i]
		e.Lane = Lane(line(string(e.Lane)))
		e.Text = line(e.Text)
		e.Detail = trimmed(e.Detail)
	}
	return r
}

func lines(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = line(text)
	}
	return shown
}

// trimmed is block without the empty lines around it. The indent of the first line is kept, because it is significant
// in a diff.
func trimmed(s string) string {
	return strings.TrimRightFunc(strings.TrimLeft(block(s), "\n"), unicode.IsSpace)
}
