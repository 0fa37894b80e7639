package fault_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// silentRun is a run in which the operator receives no event.
type silentRun struct {
	fault.Run

	operator *intercept.Interceptor
	untried  string
	waits    int
}

func (r *silentRun) Operator() *intercept.Interceptor  { return r.operator }
func (r *silentRun) LogFault(string)                   {}
func (r *silentRun) MarkUntried(reason string)         { r.untried = reason }
func (r *silentRun) WroteEvent(f intercept.Frame) bool { return f.Version == "" }
func (r *silentRun) Primaries() []history.Change       { return nil }
func (r *silentRun) WaitIdle()                         { r.waits++ }

// A lag in which no event was delayed proves nothing.
func TestLagWithoutEventsIsUntried(t *testing.T) {
	t.Parallel()
	cm := intercept.GroupResource{Resource: "configmaps"}
	update := baseline.Target{Verb: "update", Kind: cm, Object: "a", Number: 1, Step: 2, Writes: true, Effective: true}
	in := &fault.Input{
		Steps: []string{"create", "scale up"},
		Baseline: &baseline.Baseline{
			Opened: []intercept.GroupResource{cm}, Calls: []baseline.Target{update},
			WatchEvents: map[intercept.GroupResource]int{cm: 2},
			LaterEvents: map[intercept.GroupResource]map[int]int{cm: {2: 1}},
		},
	}
	waits := map[string]int{}
	for _, p := range fault.Plans(in) {
		if !fault.Includes("lag", p.Fault) || p.Skip != "" {
			continue
		}
		r := &silentRun{operator: intercept.New(nil)}
		p.Before(r, 1)
		if p.Fault == "lag-deleted" {
			p.During(r, len(in.Steps))
		} else {
			p.During(r, 1)
		}
		if r.untried == "" {
			t.Errorf("%s counts, and no event was delayed", p.Name)
		}
		waits[p.Name] = r.waits
	}
	want := map[string]int{
		"lag/configmaps@scale-up": 2, "lag-long/configmaps@scale-up": 4, "lag-deleted/configmaps@scale-up": 1,
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("how often a plan waits for the idle operator (-want +got):\n%s", diff)
	}
}

// A short exploration tries these faults with children rather than with the custom resource, however often it is written. It
// prefers children that the garbage collector does not delete.
func TestLongLagPrefersChildren(t *testing.T) {
	t.Parallel()
	child, custom := intercept.GroupResource{Resource: "configmaps"}, intercept.GroupResource{Resource: "widgets"}
	shared := intercept.GroupResource{Resource: "secrets"}
	owned := []byte(`{"metadata": {"ownerReferences": [{"name": "a"}]}}`)
	in := &fault.Input{Steps: []string{"create"}, Baseline: &baseline.Baseline{
		Opened:      []intercept.GroupResource{custom, child, shared},
		WatchEvents: map[intercept.GroupResource]int{custom: 2, child: 1, shared: 1},
		LaterEvents: map[intercept.GroupResource]map[int]int{custom: {1: 2}, child: {1: 1}, shared: {1: 1}},
		Children: [][]baseline.Child{{
			{Name: "configmaps/a", Kind: child, Content: owned}, {Name: "secrets/s", Kind: shared, Content: []byte("{}")},
		}},
		Calls: []baseline.Target{
			{Verb: "create", Kind: child, Object: "a", Number: 1, Step: 1, Writes: true, Effective: true, Creates: true},
			{Verb: "create", Kind: shared, Object: "s", Number: 1, Step: 1, Writes: true, Effective: true, Creates: true},
			{Verb: "update", Kind: custom, Object: "a", Number: 1, Step: 1, Writes: true, Effective: true},
			{Verb: "update", Kind: custom, Object: "a", Number: 2, Step: 1, Writes: true, Effective: true},
		},
	}}
	weights := map[string]int{}
	for _, p := range fault.Plans(in) {
		if p.Fault == "crash-deleted" || fault.Includes("lag-long", p.Fault) || fault.Includes("lag-deleted", p.Fault) {
			weights[p.Name] = p.Weight
		}
	}
	want := map[string]int{
		"lag-long/widgets@create": 0, "lag-long/configmaps@create": 1,
		"lag-deleted/widgets@create": 0, "lag-deleted/configmaps@create": 1, "lag-deleted/secrets@create": 1001,
		"lag-long/secrets@create":             1001,
		"crash-deleted/create-configmaps-a#1": 0, "crash-deleted/create-secrets-s#1": 1,
	}
	if diff := cmp.Diff(want, weights); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

// The name lag stands for all faults that delay events.
func TestLagNamesGroup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lag", "lag-long", "lag-deleted"} {
		if !slices.Contains(fault.Names(), name) || !fault.Selects([]string{"lag"}, name) || !fault.Selects(nil, name) {
			t.Errorf("lag does not select %s", name)
		}
	}
}
