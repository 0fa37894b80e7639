package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares with a file in testdata.
func golden(t *testing.T, name, reason string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s, but %s differs (-want +got; `go test -update` accepts):\n%s", reason, file, diff)
	}
}

// website is an exploration of an operator that creates a Deployment with a generated name and records the name in the
// status only afterwards. Killed in between it creates a second one. It also has a hot loop.
func website(t *testing.T) *report.Report {
	t.Helper()
	data, err := os.ReadFile("testdata/website.json")
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// small has one of everything.
func small() *report.Report {
	const ms = time.Millisecond
	return &report.Report{
		Operator: "gadget", Steps: []string{"create", "delete"}, Seed: 3, Duration: 4 * time.Second,
		Started: time.Date(2026, 11, 21, 14, 2, 11, 0, time.UTC),
		Runs: []report.Run{
			{Name: "none#1", Fault: "none", Summary: "Nothing was done.", Outcome: report.Passed, Duration: time.Second},
			{
				Name: "crash-after/create-pod-web#1", Fault: "crash-after", Summary: "The operator was killed.",
				Outcome: report.Failed, Duration: 2 * time.Second, Replay: "go test -run 'TestGadget' -chaos.plan x",
				Violations: []report.Violation{
					{Oracle: "end-state", Message: "Pod web is missing.", Detail: "  a\n- b\n+ c"},
					{Oracle: "panics", Message: "The operator panicked."},
				},
				Timeline: []report.Entry{
					{At: 0, Lane: report.Scenario, Text: "create Gadget web"},
					{At: 10 * ms, Lane: report.Operator, Text: "get gadgets web -> 200"},
					{At: 11 * ms, Lane: report.Operator, Text: "create pods web -> 201", Detail: "spec.a: 1"},
					{At: 11 * ms, Lane: report.Fault, Text: "killed the operator", Bad: true},
					{At: 900 * ms, Lane: report.Log, Text: "panic: it was"},
				},
			},
			{
				Name: "drift/pod-web", Fault: "drift", Summary: "A user deleted Pod web.", Outcome: report.Untried,
				UntriedReason: "There was no Pod web.", Duration: time.Second,
			},
		},
		Skipped: []report.Skipped{{Reason: "time was up", Plans: []string{"error-500/create-pod-web#1"}}},
		Notes:   []string{"It ran as cluster-admin."},
	}
}

func written(t *testing.T, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func page(t *testing.T, r *report.Report) []byte {
	t.Helper()
	return written(t, func(b *bytes.Buffer) error { return report.WriteHTML(b, r) })
}

func TestJSONIsTheReport(t *testing.T) {
	t.Parallel()
	want := website(t)
	var got report.Report
	data := written(t, func(b *bytes.Buffer) error { return report.WriteJSON(b, want) })
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("the report differs after writing and reading it (-want +got):\n%s", diff)
	}
	golden(t, "website.json", "the fixture has the form in which reports are written", data)
}

func TestCounts(t *testing.T) {
	t.Parallel()
	r := small()
	got := map[report.Outcome]int{
		report.Passed: r.Count(report.Passed), report.Failed: r.Count(report.Failed), report.Untried: r.Count(report.Untried),
	}
	want := map[report.Outcome]int{report.Passed: 1, report.Failed: 1, report.Untried: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs by outcome (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]report.Run{r.Runs[1]}, r.Failures()); diff != "" {
		t.Errorf("failed runs (-want +got):\n%s", diff)
	}
}
