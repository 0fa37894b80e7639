package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// elevenOfOneCause has eleven failed runs with one cause, the last of which has another one as well.
func elevenOfOneCause() *report.Report {
	r := &report.Report{Operator: "gadget"}
	for i := range 11 {
		step := fmt.Sprintf("step %d, \"quoted\"", i+1)
		run := report.Run{
			Name: fmt.Sprintf("error-500/update-pods-web#%d", i+1), Fault: "error-500", Outcome: report.Failed,
			Violations: []report.Violation{{
				Oracle:  "status",
				Message: fmt.Sprintf("after step %q Gadget web says Ready, %d.5s later, 0x%xf0, 3 times", step, i+1, i+1),
			}},
			Timeline: []report.Entry{{Lane: report.Log, Text: fmt.Sprintf("log of run %d", i+1)}},
		}
		if i == 1 {
			run.Violations[0].Message = strings.Replace(run.Violations[0].Message, "3 times", "twice", 1)
		}
		r.Runs = append(r.Runs, run)
	}
	last := &r.Runs[10]
	last.Violations = append(last.Violations, report.Violation{Oracle: "panic", Message: "the operator panicked", Cause: "x"})
	return r
}

func TestFindings(t *testing.T) {
	t.Parallel()
	r := elevenOfOneCause()
	var all []string
	for _, run := range r.Runs {
		all = append(all, run.Name)
	}
	want := []report.Finding{
		{Oracle: "status", Message: r.Runs[0].Violations[0].Message, Runs: all},
		{Oracle: "panic", Message: "the operator panicked", Runs: all[10:]},
	}
	if diff := cmp.Diff(want, r.Findings()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	r.Runs[1].Violations[0].Message = "after step \"a\" Gadget db says Ready, and it is not"
	if got := len(r.Findings()); got != 3 {
		t.Errorf("%d findings after one about another object was added, want 3", got)
	}
}

// Fields of an object are findings of their own, unless the whole object is missing in one of the runs, in any order.
func TestPartsOfACause(t *testing.T) {
	t.Parallel()
	field := func(part string) report.Run {
		v := report.Violation{Oracle: "end-state", Message: "it differs", Cause: "configmaps", Part: part}
		return report.Run{Name: "run" + part, Outcome: report.Failed, Violations: []report.Violation{v}}
	}
	for name, test := range map[string]struct {
		runs []report.Run
		want int
	}{
		"fields":         {[]report.Run{field("a"), field("b"), field("a")}, 2},
		"object at last": {[]report.Run{field("a"), field("b"), field("")}, 1},
		"object first":   {[]report.Run{field(""), field("b")}, 1},
	} {
		found := (&report.Report{Runs: test.runs}).Findings()
		if len(found) != test.want {
			t.Errorf("%s: findings %v, want %d", name, found, test.want)
		}
		if n := len(found[0].Runs); test.want == 1 && n != len(test.runs) {
			t.Errorf("%s: the finding has %d runs, want %d", name, n, len(test.runs))
		}
	}
}

// A failed run says whether a second run of its plan failed as well, where a reader looks for the replay.
func TestSecondRun(t *testing.T) {
	t.Parallel()
	const title = "To run this alone"
	for again, want := range map[report.Outcome]string{
		"": "", report.Failed: "",
		report.Passed:  "A second run of this plan did not find this again",
		report.Untried: "A second run of this plan could not inject the fault",
	} {
		r := elevenOfOneCause()
		r.Runs = r.Runs[:1]
		r.Runs[0].Again = again
		r.Runs[0].Replay = "the command"
		for name, got := range map[string]string{"text": text(t, r), "HTML": string(page(t, r))} {
			mentions := strings.Contains(got, "A second run")
			if !strings.Contains(got, title) || mentions != (want != "") || !strings.Contains(got, want) {
				t.Errorf("second run %q: the %s does not have %q:\n%s", again, name, want, got)
			}
		}
	}
}

// Each writer shows the details of a cause once, and the names of all its runs.
func TestOneCauseIsWrittenOnce(t *testing.T) {
	t.Parallel()
	r := elevenOfOneCause()
	shown := text(t, r)
	junit := string(written(t, func(b *bytes.Buffer) error { return report.WriteJUnit(b, r) }))
	for name, got := range map[string]string{"text": shown, "JUnit": junit} {
		for i, want := range map[int]int{1: 1, 2: 0, 10: 0, 11: 1} {
			if n := strings.Count(got, fmt.Sprintf("log of run %d\n", i)); n != want {
				t.Errorf("the timeline of run %d is %d times in the %s, want %d:\n%s", i, n, name, want, got)
			}
		}
	}
	for _, want := range []string{
		"The same cause in 10 other runs: error-500/update-pods-web#2, ", "The cause is that of error-500/update-pods-web#1.",
		"11 failed with 2 findings",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in the text:\n%s", want, shown)
		}
	}
	if n := strings.Count(junit, "<failure "); n != 11 {
		t.Errorf("%d test cases failed, want 11", n)
	}
	html := string(page(t, r))
	if !strings.Contains(html, `<a href="#r9"><code>error-500/update-pods-web#10</code></a>`) {
		t.Error("the page has no link to a run from its finding")
	}
	json := string(written(t, func(b *bytes.Buffer) error { return report.WriteJSON(b, r) }))
	if n := strings.Count(json, `"runs": [`); n != 3 { // the runs of the report and those of two findings
		t.Errorf("%d lists of runs in the JSON, want 3", n)
	}
}
