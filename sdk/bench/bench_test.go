package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, test := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{2, 1}, 0.5, 1},
		{[]float64{7}, 0.99, 7},
	} {
		if got := quantile(test.values, test.share); got != test.want {
			t.Errorf("quantile %g of %d values: %g, want %g", test.share, len(test.values), got, test.want)
		}
	}
}

// Each figure of several rounds is the median of its values, and the rounds are not modified.
func TestMedians(t *testing.T) {
	t.Parallel()
	one := func(n int, wall, cpu, p50 float64) result {
		return result{
			Candidate: "sdk", N: n, WallSeconds: wall, OperatorCPUSeconds: cpu, DriftP50Millis: &p50,
			RequestsByVerb: map[string]float64{"POST services": wall},
		}
	}
	rounds := []result{
		one(10, 1, 30, 5), {Candidate: "floor", N: 10, WallSeconds: 9}, one(1, 7, 7, 7), one(10, 3, 10, 4), one(10, 2, 20, 6),
	}
	got := medians(rounds)
	want := []result{one(1, 7, 7, 7), {Candidate: "floor", N: 10, WallSeconds: 9}, one(10, 2, 20, 5)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
	if *rounds[0].DriftP50Millis != 5 || rounds[0].RequestsByVerb["POST services"] != 1 {
		t.Errorf("the first round was changed to %+v", rounds[0])
	}
}

// Requests are counted by verb and subresource, without watches and resources of other programs.
func TestRequests(t *testing.T) {
	t.Parallel()
	const name = "apiserver_request_total"
	raw := `# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="services",subresource="",verb="PATCH"} 2
apiserver_request_total{code="201",resource="services",subresource="",verb="PATCH"} 3
apiserver_request_total{code="200",resource="databases",subresource="status",verb="PATCH"} 4
apiserver_request_total{code="200",resource="databases",subresource="",verb="WATCH"} 5
apiserver_request_total{code="200",resource="services",subresource="",verb="LIST"} 6
apiserver_request_total{code="200",resource="nodes",subresource="",verb="GET"} 7
apiserver_request_total_other{code="200",resource="services",verb="PATCH"} 8
`
	metrics, err := parseMetrics([]byte(raw), name)
	if err != nil {
		t.Fatal(err)
	}
	got := countByKind(metrics)
	want := requests{"PATCH services": 5, "PATCH databases/status": 4, "LIST services": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	before := requests{"PATCH services": 4, "LIST services": 1}
	without := got.since(before, "PATCH databases/status")
	if diff := cmp.Diff(requests{"PATCH services": 1, "LIST services": 5}, without); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(requests{"PATCH services": 1, "PATCH databases/status": 4}, got.sinceStart(before)); diff != "" {
		t.Errorf("since the start (-want +got):\n%s", diff)
	}
	if sum := want.sum(); sum != 15 {
		t.Errorf("the sum is %g, want 15", sum)
	}
}

func results() []result {
	return []result{
		{Candidate: "floor", N: 300, RequestsPerObject: 5, OperatorCPUSeconds: 1, WallSeconds: 3},
		{Candidate: "apply-floor", N: 300, RequestsPerObject: 5, OperatorCPUSeconds: 1, WallSeconds: 4},
		{Candidate: "kubebuilder", N: 300, RequestsPerObject: 9, OperatorCPUSeconds: 1.4, WallSeconds: 4, RSSBytes: 50 * mib},
		{
			Candidate: "sdk", N: 300, RequestsPerObject: 5, OperatorCPUSeconds: 1.4, WallSeconds: 4.4, RSSBytes: 60 * mib,
			SteadyRequests: new(0.0), ChurnRequests: new(1.0), RestartRequests: new(0.0),
			DriftP50Millis: new(5.0), DriftP99Millis: new(50.0),
		},
		{Candidate: "sdk", N: 600, RequestsPerObject: 5, OperatorCPUSeconds: 3.5, WallSeconds: 8.8},
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printGoals(&out, goals(results()))
	want := `
What the SDK aims at:
  met     300 objects: requests per object beyond floor: 0.00 (at most 1)
  met     300 objects: CPU as a multiple of floor's: 1.40 (at most 1.5)
  met     300 objects: wall time as a multiple of apply-floor's: 1.10 (at most 1.1)
  MISSED  300 objects: CPU as a multiple of kubebuilder's: 1.00 (less than 1)
  met     300 objects: memory as a multiple of kubebuilder's: 1.20 (at most 1.2)
  met     300 objects: requests at rest: 0.00 (at most 0)
  MISSED  300 objects: requests while children's status changes: 1.00 (at most 0)
  met     300 objects: requests after a restart: 0.00 (at most 0)
  MISSED  300 objects: p99 of the time to repair, in ms: 50.00 (less than 50)
  MISSED  600 objects: CPU per object as a multiple of that with 300: 1.25 (at most 1.15)
  met     600 objects: wall time per object as a multiple of that with 300: 1.00 (at most 1.15)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("goals (-want +got):\n%s", diff)
	}
}

func TestTableAndPicture(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printTable(&out, document{Rounds: 3, Results: results()})
	for _, want := range []string{"rounds: 3", "300 objects", "600 objects", "apply-floor", "5.00    4.40   1.40 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	raw, err := drawSVG(results())
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(raw))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	for _, want := range []string{"<svg", "kubebuilder", "wall time per object, ms", "600"} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("there is no %q in the picture", want)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-n 300,none":          `"none" is not a number of objects`,
		"-n 0":                 `"0" is not a number of objects`,
		"-contenders sdk,kopf": `there is no contender "kopf"`,
		"-rounds 0":            "-rounds=0: it must be at least 1",
		"more":                 `unexpected argument "more"`,
	} {
		_, err := parseArgs(strings.Fields(args))
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("arguments %q: %v, want %q", args, err, want)
		}
	}
}

// Every candidate creates all children, and the goals of the SDK hold for a few objects too.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("four control planes are started, which takes most of a minute")
	}
	t.Parallel()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.API)})
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := build(t.Context(), programs, candidates()); err != nil {
		t.Fatal(err)
	}
	b := &bench{binaries: set.Dir, programs: programs, window: 3 * time.Second, logf: t.Logf}
	perObject := map[string]float64{}
	for _, c := range candidates() {
		const n = 20
		r, err := b.measure(t.Context(), c, n)
		if err != nil {
			t.Fatal(err)
		}
		perObject[c.name] = r.RequestsPerObject
		t.Logf("%+v", r)
		checkResult(t, c, &r)
	}
	for _, name := range []string{"floor", "apply-floor"} { // four children and a status
		if perObject[name] != 5 {
			t.Errorf("%s needed %g requests for each object, want 5", name, perObject[name])
		}
	}
	if perObject["sdk"] > perObject["floor"]+1 { // a busy machine may cause an event
		t.Errorf("sdk needed %g requests for each object, want at most 1 beyond floor's", perObject["sdk"])
	}
}

func checkResult(t *testing.T, c candidate, r *result) {
	t.Helper()
	if r.WallSeconds <= 0 || r.OperatorCPUSeconds < 0 || r.APIServerCPUSeconds <= 0 || r.RSSBytes < mib {
		t.Errorf("%s: implausible result %+v", c.name, r)
	}
	for i, f := range []*float64{r.SteadyRequests, r.ChurnRequests, r.RestartRequests, r.DriftP50Millis, r.DriftP99Millis} {
		switch {
		case c.singlePass != (f == nil):
			t.Errorf("%s: result %+v; values after the first pass are wanted for all but single-pass contenders", c.name, r)
		case c.name == "sdk" && i < 3 && *f != 0:
			t.Errorf("requests when idle, in churn and after a restart: %g, %g and %g, want none",
				*r.SteadyRequests, *r.ChurnRequests, *r.RestartRequests)
		}
	}
}

// The error about a candidate that ends contains its exit status and its output.
func TestCandidateExitIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := "#!/bin/sh\necho this is why; exit 3\n"
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := candidate{name: "bad", pkg: "bad"}.start(dir, "", filepath.Join(dir, "log"), "")
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	err = p.check()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "this is why") {
		t.Errorf("got error %v, want the exit status and the output of the program", err)
	}
	p.stop()
}
