package report_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

func text(t *testing.T, r *report.Report, opts ...report.TextOption) string {
	t.Helper()
	return string(written(t, func(b *bytes.Buffer) error { return report.WriteText(b, r, opts...) }))
}

func TestTextGolden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		r      *report.Report
		opts   []report.TextOption
	}{
		"website.txt":       {"a reader who does not know the operator can find the mistake", website(t), nil},
		"small.verbose.txt": {"there is a line for each run", small(), []report.TextOption{report.Verbose()}},
		"nothing.txt":       {"a report without runs has a note", &report.Report{Operator: "gadget"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, tc.reason, []byte(text(t, tc.r, tc.opts...)))
		})
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9]+m")

func TestColorKeepsText(t *testing.T) {
	t.Parallel()
	colored := text(t, website(t), report.Color(), report.Verbose())
	if diff := cmp.Diff(text(t, website(t), report.Verbose()), ansi.ReplaceAllString(colored, "")); diff != "" {
		t.Errorf("the text without its colors differs from the plain one (-want +got):\n%s", diff)
	}
	for reason, want := range map[string]string{
		"a failure is red":     "\x1b[31mfailed \x1b[0m crash-after/create-deployment-shop#1",
		"an addition is green": "\x1b[32m+ \t\tmap[string]any{\x1b[0m",
		"a removal is red":     "\x1b[31m- \t\t\t\t\"deployment\": string(\"shop-~1\"),\x1b[0m",
	} {
		if !strings.Contains(colored, want) {
			t.Errorf("%s, but %q is not in the text", reason, want)
		}
	}
}

// TestTextEscapesControlCodes checks that control codes of the operator's output have no effect in a terminal.
func TestTextEscapesControlCodes(t *testing.T) {
	t.Parallel()
	got := text(t, hostile(), report.Verbose())
	if !utf8.ValidString(got) {
		t.Error("the text is not UTF-8")
	}
	for _, r := range got {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			t.Errorf("character %U is in the text", r)
		}
	}
	for reason, want := range map[string]string{
		"what is left out is seen":         `\x1b[2J`,
		"reversed text is not reversed":    `\u202etxet`,
		"colors of a logger are dropped":   `\ared `,
		"a long line is cut, and says so":  "... (79700 more characters)",
		"a long detail, too":               "... 4997 more lines",
		"what is no UTF-8 has replacement": "\uFFFD",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s, but %q is not in the text", reason, want)
		}
	}
}

type fullDisk struct{ io.Writer }

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWritersReportErrors(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, *report.Report) error{
		"text":  func(w io.Writer, r *report.Report) error { return report.WriteText(w, r) },
		"JUnit": report.WriteJUnit,
		"HTML":  report.WriteHTML,
		"JSON":  report.WriteJSON,
	} {
		if err := write(fullDisk{}, small()); !errors.Is(err, errFull) || !strings.Contains(err.Error(), name) {
			t.Errorf("writing %s on a full disk: %v", name, err)
		}
	}
}
