package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteJUnit writes the format of CI systems: one suite with a test case for each run. A failed run has its violations
// and, if it is the first one with one of their causes, its timeline as in WriteText. An untried run counts as skipped, and
// plans that were not run are in the output of the suite.
func WriteJUnit(w io.Writer, r *Report) error {
	r = r.printable()
	suite := junitSuite{
		Name:       r.Operator,
		Tests:      len(r.Runs),
		Failures:   r.Count(Failed),
		Skipped:    len(r.Runs) - r.Count(Failed) - r.Count(Passed),
		Time:       junitSeconds(r.Duration),
		Properties: []junitProperty{{"seed", strconv.FormatInt(r.Seed, 10)}, {"steps", strings.Join(r.Steps, ", ")}},
	}
	if !r.Started.IsZero() {
		suite.Timestamp = r.Started.UTC().Format("2006-01-02T15:04:05")
	}
	all := newCauses(r)
	for _, run := range r.Runs {
		suite.Cases = append(suite.Cases, junitCaseOf(r, run, all))
	}
	var out text
	if out.writeOmissions(r) {
		suite.Output = &junitOutput{Text: "\n" + out.String()}
	}
	encoded, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report as JUnit XML: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, encoded); err != nil {
		return fmt.Errorf("writing the report as JUnit XML: %w", err)
	}
	return nil
}

func junitCaseOf(r *Report, run Run, all *causes) junitCase {
	c := junitCase{Name: run.Name, Class: r.Operator, Time: junitSeconds(run.Duration)}
	switch run.Outcome {
	case Passed:
	case Failed:
		body := text{causes: all}
		if !all.introduces(run) {
			run.Timeline = nil
		}
		body.writeRun(run, "")
		c.Failure = &junitFailure{Body: "\n" + body.String()}
		if n := len(run.Violations); n > 0 {
			c.Failure.Message = run.Violations[0].Message
			c.Failure.Type = run.Violations[0].Oracle
			if n > 1 {
				c.Failure.Message += fmt.Sprintf(" (and %s)", count(n-1, "other violation", "other violations"))
			}
		}
	default: // untried, or an undocumented outcome: not known to be good
		c.Skipped = &junitSkipped{Message: cmp.Or(run.UntriedReason, notInjected)}
	}
	return c
}

// junitSuites follows the schema of Jenkins (xunit-plugin, junit-10.xsd), which is accepted by other CI systems.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Output     *junitOutput    `xml:"system-out"`
}

type junitOutput struct {
	Text string `xml:",cdata"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Body    string `xml:",cdata"` // otherwise each line break would be a character reference
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

func junitSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
