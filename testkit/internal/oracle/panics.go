package oracle

import (
	"regexp"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Panic is the oracle of [LoggedPanics].
const Panic = "panic"

// goPanic matches a panic in the log of a program in Go, Rust, Java or JavaScript. A panic with an error as its value, as in
// panic(err), is a deliberate exit, which oracle exit judges.
var goPanic = regexp.MustCompile(`Observed a panic\b.*` +
	`|panic: (?:runtime error: |assignment to entry in nil map|interface conversion: ).*` +
	`|panic: (?:close of |send on closed channel|sync: ).*` +
	`|fatal error: (?:concurrent map |all goroutines are asleep|stack overflow).*` +
	`|thread '[^']*'.* panicked at .*` +
	`|java\.lang\.(?:NullPointer|ClassCast|IndexOutOfBounds|ArrayIndexOutOfBounds|Arithmetic)Exception.*` +
	`|(?:TypeError: Cannot read propert|ReferenceError: ).*`)

// panicValue matches the value in a structured message.
var panicValue = regexp.MustCompile(`(?:runtime error: |assignment to entry in nil map|interface conversion: )[^"\\]*`)

// pythonMistake matches the last line of a traceback for an exception that Python raises for a mistake in the program. A
// traceback for a failed request may be the log of a handled error.
var pythonMistake = regexp.MustCompile(`^(?:Type|Attribute|Name|UnboundLocal|Index|Key|ZeroDivision|Recursion)Error(?::|$)`)

// tracebackStart is the first line of a traceback.
const tracebackStart = "Traceback (most recent call last):"

// LoggedPanics finds the first panic of a program in the lines of its log: a panic that the program has not caused itself,
// or an exception for a mistake in the program.
func LoggedPanics(log []string) []report.Violation {
	lines := logLines(log)
	inTraceback := false
	from := 0
	for i, line := range lines {
		switch found := goPanic.FindString(line); {
		case found != "":
			if value := panicValue.FindString(found); value != "" {
				found = value
			}
			return loggedPanic(found, lines[i:])
		case strings.Contains(line, tracebackStart):
			inTraceback, from = true, i
		case inTraceback && line != "" && !strings.HasPrefix(line, " "):
			inTraceback = false
			if pythonMistake.MatchString(line) {
				return loggedPanic(line, lines[from:i+1])
			}
		}
	}
	return nil
}

func loggedPanic(value string, context []string) []report.Violation {
	const longest, most = 200, 20
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "..."
	}
	if len(context) > most {
		context = context[:most]
	}
	return []report.Violation{{
		Oracle: Panic, Message: "the operator panicked: " + strings.TrimRight(value, ` "}`), Detail: strings.Join(context, "\n"),
	}}
}

// processPrefix matches the number of a process before its line.
var processPrefix = regexp.MustCompile(`^\[process \d+\] `)

// logLines returns the lines without the number of the process. A line in JSON may have several in one of its values.
func logLines(log []string) []string {
	var lines []string
	for _, line := range log {
		line = processPrefix.ReplaceAllString(line, "")
		if strings.Contains(line, tracebackStart) {
			line = strings.ReplaceAll(line, `\n`, "\n")
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	return lines
}
