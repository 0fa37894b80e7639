package main

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"
)

// line is a line of output and when it was printed.
type line struct {
	at   time.Duration
	text string
}

// record runs the command and returns the lines of its standard output and standard error, which it also copies to echo.
// A command that fails is an error: a picture shows a success.
func record(command []string, echo io.Writer) ([]line, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // the command is an argument
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	cmd.Stderr = writer
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", command[0], err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = writer.Close()
		ended <- err
	}()
	var lines []line
	scanner := bufio.NewScanner(reader)
	for scanner.Scan() {
		text := strings.ReplaceAll(scanner.Text(), "\t", "    ")
		fmt.Fprintln(echo, text)
		lines = append(lines, line{time.Since(began), text})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", command[0], err)
	}
	if err := <-ended; err != nil {
		return nil, fmt.Errorf("running %s: %w", strings.Join(command, " "), err)
	}
	return lines, nil
}

const (
	charWidth  = 7.8 // of the monospaced font, in pixels
	lineHeight = 19
	margin     = 16
	titleBar   = 34
	minColumns = 60
	// longestPause is how long the picture waits for a line at most: what compiles for a minute is no film.
	longestPause = 1200 * time.Millisecond
	// lastPause is how long the last screen stays before the picture begins again.
	lastPause = 8 * time.Second
)

// compress shortens the pauses between lines and returns when the picture begins again.
func compress(lines []line) ([]line, time.Duration) {
	short := make([]line, len(lines))
	var now, before time.Duration
	for i, l := range lines {
		now += min(l.at-before, longestPause)
		before = l.at
		short[i] = line{now, l.text}
	}
	return short, now + lastPause
}

// drawCast returns the SVG of a terminal in which the lines appear one after another.
func drawCast(title string, lines []line) []byte {
	lines, duration := compress(lines)
	columns := minColumns
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l.text))
	}
	width := 2*margin + int(float64(columns)*charWidth)
	height := titleBar + 2*margin + len(lines)*lineHeight

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(title))
	b.WriteString("<style>\n" + castStyle)
	fmt.Fprintf(&b, "@media (prefers-reduced-motion: no-preference) {\n"+
		"  .l { opacity: 0; animation: %.2fs step-end infinite }\n", duration.Seconds())
	for i, l := range lines {
		fmt.Fprintf(&b, "  .l%d { animation-name: a%d } @keyframes a%d { 0%% { opacity: 0 } %.2f%% { opacity: 1 } }\n",
			i, i, i, 100*l.at.Seconds()/duration.Seconds())
	}
	b.WriteString("}\n</style>\n")
	fmt.Fprintf(&b, `<rect class="b" width="%d" height="%d" rx="8"/>`+"\n", width, height)
	for i, class := range []string{"r", "y", "g"} {
		fmt.Fprintf(&b, `<circle class="%s" cx="%d" cy="17" r="5.5"/>`+"\n", class, 20+18*i)
	}
	fmt.Fprintf(&b, `<text class="t" x="%d" y="22" text-anchor="middle">%s</text>`+"\n", width/2, escape(title))
	for i, l := range lines {
		class := "l"
		if isHeading(l.text) {
			class = "l h"
		}
		fmt.Fprintf(&b, `<text class="%s l%d" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n",
			class, i, margin, titleBar+margin+(i+1)*lineHeight-5, escape(l.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

const castStyle = `.b { fill: #0d1117; stroke: #30363d }
.r { fill: #ff5f57 } .y { fill: #febc2e } .g { fill: #28c840 }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #e6edf3 }
.t { fill: #8b949e } .h { font-weight: bold; fill: #79c0ff }
`

// isHeading reports whether the line begins a step, for example "1. Create a database.".
func isHeading(text string) bool {
	number, _, found := strings.Cut(text, ". ")
	return found && number != "" && strings.Trim(number, "0123456789") == ""
}

// escape returns the text as XML character data.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}
