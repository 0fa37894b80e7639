package chaos

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// findings collects the failed runs of a sweep, so that the details of a cause are printed once. It is safe for concurrent
// use.
type findings struct {
	mu     sync.Mutex
	failed report.Report
	first  map[string]string // the first run of each cause
}

// add adds the runs and returns the text of the failed ones, or "". A run whose causes are all known has no timeline.
func (f *findings) add(t *testing.T, runs ...report.Run) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	printed := report.Report{}
	var known []string
	for _, run := range runs {
		if run.Outcome != report.Failed {
			continue
		}
		f.failed.Runs = append(f.failed.Runs, run)
		if same := f.note(run); same != "" {
			run.Timeline = nil
			known = append(known, same)
		}
		printed.Runs = append(printed.Runs, run)
	}
	var b strings.Builder
	if err := report.WriteText(&b, &printed, report.OnlyFailures()); err != nil {
		t.Fatal(err)
	}
	if len(runs) == 1 { // the text of several runs names those with the same cause
		b.WriteString(strings.Join(known, ""))
	}
	return b.String()
}

// note stores the causes of a run. If none is new, it returns a sentence with the first run of the first one.
func (f *findings) note(run report.Run) string {
	if f.first == nil {
		f.first = map[string]string{}
	}
	same, fresh := "", false
	for _, v := range run.Violations {
		first, known := f.first[v.CauseKey()]
		switch {
		case !known:
			f.first[v.CauseKey()] = run.Name
			fresh = true
		case same == "":
			same = fmt.Sprintf("The cause is that of %s, which has the timeline.\n", first)
		}
	}
	if fresh {
		return ""
	}
	return same
}

// summarize logs the findings with their runs, if a finding has several.
func (f *findings) summarize(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.failed.Findings()
	if len(f.failed.Runs) <= len(all) {
		return
	}
	var b strings.Builder
	for i, finding := range all {
		message := report.Line(finding.Message)
		fmt.Fprintf(&b, "\nfinding %d of %d, in %d runs: %s: %s", i+1, len(all), len(finding.Runs), finding.Oracle, message)
		for _, run := range finding.Runs {
			fmt.Fprintf(&b, "\n    %s", run)
		}
	}
	t.Log(b.String())
}
