package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// The first finding is printed with its details when it is found, a further one in a line, and a known cause not at all.
func TestProgressPrintsFindings(t *testing.T) {
	t.Parallel()
	failed := func(name, message string) report.Run {
		return report.Run{
			Name: name, Outcome: report.Failed, Replay: "replay " + name,
			Violations: []report.Violation{{Oracle: "status", Message: message, Detail: "-   " + name}},
			Timeline:   []report.Entry{{Lane: report.Log, Text: "a line of the log"}},
		}
	}
	var out bytes.Buffer
	p := newProgress(&out)
	p.learned(report.Run{Name: "none/1", Outcome: report.Passed})
	p.planned(3)
	for i, run := range []report.Run{
		failed("a#1", "after step \"one\" web is Ready"), failed("a#2", "after step \"two\" web is Ready"),
		failed("b#1", "after step \"one\" web is\x1b gone"),
	} {
		p.step(i+1, 3, run)
	}
	want := `testkit: none/1 passed (0.0 s)
testkit: trying 3 plans
  1/3 failed  a#1 (0.0 s)
testkit: the first finding:
failed a#1 (0.00s)

  status: after step "one" web is Ready
      -   a#1

  To run this alone:
      replay a#1

  2/3 failed  a#2 (0.0 s)
  3/3 failed  b#1 (0.0 s)
testkit: finding 2: status: after step "one" web is\x1b gone (b#1)
`
	if got := out.String(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("the progress is\n%s\nwant\n%s", got, want)
	}
}
