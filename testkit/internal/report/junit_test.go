package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

func junit(t *testing.T, r *report.Report) []byte {
	t.Helper()
	return written(t, func(b *bytes.Buffer) error { return report.WriteJUnit(b, r) })
}

func TestJUnitGolden(t *testing.T) {
	t.Parallel()
	golden(t, "small.xml", "CI systems have one test case for each run", junit(t, small()))
}

// suites is the result of parsing JUnit XML.
type suites struct {
	Suites []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Body    string `xml:",chardata"`
			} `xml:"failure"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestJUnitHasEveryRun(t *testing.T) {
	t.Parallel()
	r := website(t)
	var got suites
	if err := xml.Unmarshal(junit(t, r), &got); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]report.Outcome{}
	want := map[string]report.Outcome{}
	for _, run := range r.Runs {
		want[run.Name] = run.Outcome
	}
	for _, c := range got.Suites[0].Cases {
		switch {
		case c.Failure != nil:
			outcomes[c.Name] = report.Failed
		case c.Skipped != nil:
			outcomes[c.Name] = report.Untried
		default:
			outcomes[c.Name] = report.Passed
		}
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes by test case (-want +got):\n%s", diff)
	}
	s := got.Suites[0]
	counts := []int{len(r.Runs), r.Count(report.Failed), r.Count(report.Untried)}
	if diff := cmp.Diff(counts, []int{s.Tests, s.Failures, s.Skipped}); diff != "" {
		t.Errorf("tests, failures and skipped of the suite (-want +got):\n%s", diff)
	}
}

func TestJUnitIsValidXML(t *testing.T) {
	t.Parallel()
	data := junit(t, hostile())
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var got suites
	if err := xml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	failure := got.Suites[0].Cases[0].Failure
	for reason, want := range map[string]string{
		"markup is text":                        "<script>window.obeyed=1</script>",
		"the end of a CDATA section is text":    "]]>",
		"what XML forbids is written as escape": `\x00\x01`,
	} {
		if !strings.Contains(failure.Message, want) || !strings.Contains(failure.Body, want) {
			t.Errorf("%s, but %q is not in the failure:\n%.300s", reason, want, failure.Message)
		}
	}
	if s := got.Suites[0]; s.Failures != 1 || s.Skipped != 2 {
		t.Errorf("an outcome that is none of the three counted as passed: %d failures, %d skipped", s.Failures, s.Skipped)
	}
}
