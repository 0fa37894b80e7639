package cli

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

func TestOperatorName(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"./bin/gadget --port 0":                    "gadget",
		"/usr/bin/python3 -u operators/pages.py x": "pages",
		"python3 -m pages.main --dev":              "pages.main",
		"kopf run --namespace={namespace} web.py":  "web",
		"java -jar target/op.jar":                  "op",
		"env A=b ./gadget":                         "env",
	} {
		if got := operatorName(strings.Fields(command)); got != want {
			t.Errorf("the name of %q is %q, want %q", command, got, want)
		}
	}
}

func TestHasResults(t *testing.T) {
	t.Parallel()
	of := func(outcomes ...report.Outcome) *report.Report {
		r := &report.Report{}
		for _, o := range outcomes {
			r.Runs = append(r.Runs, report.Run{Outcome: o})
		}
		return r
	}
	for name, test := range map[string]struct {
		r    *report.Report
		want bool
	}{
		"None":    {nil, false},
		"Empty":   {of(), false},
		"Untried": {of(report.Untried, report.Untried), false}, // the program could not be started
		"Passed":  {of(report.Untried, report.Passed), true},
		"Failed":  {of(report.Failed), true},
	} {
		if got := hasResults(test.r); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
