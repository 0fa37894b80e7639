package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// colour is what a logger writes to a terminal around a word. Nothing is lost without it.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// block returns a text of several lines as it can be shown anywhere: whatever is not a visible character is written as
// in a Go string, "\x1b" for example, so that it is seen and nobody obeys it.
func block(s string) string {
	if plain(s) {
		return s
	}
	s = colour.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\u00a0", " ") // go-cmp mixes them in, so that nobody relies on its form
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

// plain spares the common case the work.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// line is block for what stands on one line.
func line(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(block(s)))
}

// printable returns a copy in which every text can be shown anywhere. The writers work on it, so that none of them can
// forget one.
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
	r.Name, r.Fault, r.What, r.Why, r.Replay = line(r.Name), line(r.Fault), line(r.What), line(r.Why), line(r.Replay)
	r.Outcome = Outcome(line(string(r.Outcome)))
	r.Violations = slices.Clone(r.Violations)
	for i, v := range r.Violations {
		r.Violations[i] = Violation{Oracle: line(v.Oracle), Message: line(v.Message), Detail: trimmed(v.Detail)}
	}
	r.Timeline = slices.Clone(r.Timeline)
	for i := range r.Timeline {
		e := &r.Timeline[i]
		e.Lane, e.Text, e.Detail = Lane(line(string(e.Lane))), line(e.Text), trimmed(e.Detail)
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

// trimmed is block without the empty lines around it. The indent of the first line stays: in a diff it has a meaning.
func trimmed(s string) string {
	return strings.TrimRightFunc(strings.TrimLeft(block(s), "\n"), unicode.IsSpace)
}
