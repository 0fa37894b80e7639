package report

import (
	"regexp"
	"strings"
)

// This file finds the errors in an operator's log.

// errorWord matches a line of a log about an error, in the formats of common loggers.
var errorWord = regexp.MustCompile(
	`(?i)\b(?:error|panic|panicked|fatal|critical|exception|traceback)\b|^(?:\[process \d+\] )?[EF]\d{4} `)

// traceStart matches a line that a stack trace follows.
var traceStart = regexp.MustCompile(`Traceback \(most recent call last\):|\bpanic\b|\bpanicked at\b|fatal error:`)

// varying matches what differs between two lines about the same error: numbers, and times and addresses of them.
var varying = regexp.MustCompile(`\d+|0x[0-9a-f]+`)

// maxTrace is the maximum number of lines shown of a stack trace.
const maxTrace = 20

// loggedErrors returns the indexes of errors in the operator's log, with their stack traces. Of an error that is repeated,
// it returns the first line and the last. If there are many different errors, it returns the first and the last of them.
func (w window) loggedErrors(timeline []Entry) []int {
	lines := map[string][]int{} // of each error
	var firsts []Entry
	var at []int
	for i, e := range timeline {
		if e.Lane != Log || !errorWord.MatchString(e.Text) {
			continue
		}
		text := varying.ReplaceAllString(e.Text, "0")
		if lines[text] == nil {
			firsts, at = append(firsts, e), append(at, i)
		}
		lines[text] = append(lines[text], i)
	}
	var all []int
	for _, n := range w.selectEntries(firsts, func(Entry) bool { return true }) {
		same := lines[varying.ReplaceAllString(firsts[n].Text, "0")]
		all = append(all, same[len(same)-1])
		all = append(all, trace(timeline, at[n])...)
	}
	return all
}

// trace returns the index of a line and, if a stack trace begins there, of the lines of the log that follow it.
func trace(timeline []Entry, from int) []int {
	all := []int{from}
	if !traceStart.MatchString(timeline[from].Text) {
		return all
	}
	for i := from + 1; i < len(timeline) && len(all) < maxTrace; i++ {
		e := timeline[i]
		if e.Lane != Log {
			continue
		}
		all = append(all, i)
		if isPython := strings.Contains(timeline[from].Text, "Traceback"); isPython && !isIndented(e.Text) {
			break // the exception
		}
	}
	return all
}

// isIndented reports whether a line begins with white space, after the number of a process.
func isIndented(text string) bool {
	if rest, ok := strings.CutPrefix(text, "[process "); ok {
		_, text, _ = strings.Cut(rest, "] ")
	}
	return strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
}
