package fault_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

func TestCatalogue(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range fault.All() {
		names = append(names, f.Name)
		if f.Doc == "" || f.Plan == nil {
			t.Errorf("fault %s is incomplete", f.Name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(fault.Names())), slices.Sorted(slices.Values(names))); diff != "" {
		t.Errorf("the catalogue differs from the names in messages (-names +catalogue):\n%s", diff)
	}
}

// The order of plans determines which ones a seed selects, so it must not change.
func TestPlans(t *testing.T) {
	t.Parallel()
	cm := intercept.GroupResource{Resource: "configmaps"}
	job := intercept.GroupResource{Group: "batch", Resource: "jobs"}
	in := &fault.Input{
		Steps:         []string{"create", "scale up"},
		IsOldRevision: func(_ int, name string) bool { return name == "configmaps/a-5f8d9" },
		Baseline: &baseline.Baseline{
			Opened:      []intercept.GroupResource{cm, job},
			WatchEvents: map[intercept.GroupResource]int{cm: 1},
			LaterEvents: map[intercept.GroupResource]map[int]int{cm: {1: 1}},
			Calls: []baseline.Target{
				{Verb: "get", Kind: cm, Object: "a", Number: 1, Step: 1},
				{Verb: "create", Kind: cm, Object: "a", Number: 1, Step: 1, Writes: true, Effective: true, Creates: true},
				{Verb: "update", Kind: cm, Object: "a", Number: 1, Step: 1, Writes: true, Effective: true},
				{Verb: "update", Kind: cm, Object: "a", Number: 2, Step: 1, Writes: true},
			},
			Children: [][]baseline.Child{{
				{Name: "configmaps/a", Kind: cm, ManagedParts: []string{"data.x", "data.y"}},
				{Name: "jobs.batch/j", Kind: job},
				{Name: "configmaps/a-5f8d9", Kind: cm},
			}},
		},
	}
	var got []string
	for _, p := range fault.Plans(in) {
		if p.Skip != "" {
			p.Name = "(" + p.Name + ")"
		}
		got = append(got, p.Name)
	}
	want := []string{
		"crash-before/create-configmaps-a#1", "crash-after/create-configmaps-a#1", "crash-deleted/create-configmaps-a#1",
		"(crash-lost/create-configmaps-a#1)",
		"(crash-before/update-configmaps-a#1)", "crash-after/update-configmaps-a#1", "(crash-lost/update-configmaps-a#1)",
		"(crash/update-configmaps-a#2)",
		"error-500/get-configmaps-a#1", "(error-503/get-configmaps-a#1)", "(error-429/get-configmaps-a#1)",
		"error-500/create-configmaps-a#1", "error-503/create-configmaps-a#1", "error-429/create-configmaps-a#1",
		"lost-answer/create-configmaps-a#1", "(conflict/create-configmaps-a#1)",
		"error-500/update-configmaps-a#1", "error-503/update-configmaps-a#1", "error-429/update-configmaps-a#1",
		"lost-answer/update-configmaps-a#1", "conflict/update-configmaps-a#1",
		"(error-500/update-configmaps-a#2)", "(error-503/update-configmaps-a#2)", "(error-429/update-configmaps-a#2)",
		"(lost-answer/update-configmaps-a#2)", "(conflict/update-configmaps-a#2)",
		"lag/configmaps@create", "(lag/configmaps@scale-up)", "missed/configmaps@create+scale-up", "(lag/jobs.batch)",
		"watch-closed@create", "watch-broken@create", "watch-expired@create",
		"watch-closed@scale-up", "watch-broken@scale-up", "watch-expired@scale-up",
		"drift-deleted/configmaps/a", "drift-unseen/configmaps/a", "drift-edited/configmaps/a", "drift-edited/configmaps/a/data.y",
		"(drift/jobs.batch/j)", "(drift-deleted/configmaps/a-5f8d9)",
		"deleted@create", "namespace-deleted@create", "failover@create", "down@create",
		"deleted@scale-up", "namespace-deleted@scale-up", "failover@scale-up", "down@scale-up", "down@create+scale-up",
		"down@deletion",
		"failover-paused/create-configmaps-a#1", "failover-paused/update-configmaps-a#1",
		"foreign-created/configmaps/a", "foreign-edited/configmaps/a", "foreign-deleted/configmaps/a",
		"foreign-created/jobs.batch/j", "foreign-edited/jobs.batch/j", "foreign-deleted/jobs.batch/j",
		"foreign-created/configmaps/a-5f8d9", "foreign-edited/configmaps/a-5f8d9", "foreign-deleted/configmaps/a-5f8d9",
		"(drift-all/configmaps/a)", "lag-long/configmaps@create", "lag-deleted/configmaps@create",
		"outage-refused@create", "outage-slow@create", "outage-restarted@create",
		"pair-errors/create-configmaps-a#1", "pair-crash-write/create-configmaps-a#1", "pair-crash-read/create-configmaps-a#1",
		"pair-errors/update-configmaps-a#1", "pair-crash-write/update-configmaps-a#1", "pair-crash-read/update-configmaps-a#1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}

// A write that creates its object has no version that another manager could make stale, with server-side apply neither.
func TestConflictNeedsAnExistingObject(t *testing.T) {
	t.Parallel()
	cm := intercept.GroupResource{Resource: "configmaps"}
	apply := baseline.Target{Verb: "apply", Kind: cm, Object: "a", Number: 1, Writes: true, Effective: true, Creates: true}
	update := baseline.Target{Verb: "apply", Kind: cm, Object: "a", Number: 2, Writes: true, Effective: true}
	in := &fault.Input{Baseline: &baseline.Baseline{Calls: []baseline.Target{apply, update}}}
	tried := map[string]bool{}
	for _, p := range fault.Plans(in) {
		if p.Fault == "conflict" {
			tried[p.Name] = p.Skip == "" && p.Required
		}
	}
	want := map[string]bool{"conflict/apply-configmaps-a#1": false, "conflict/apply-configmaps-a#2": true}
	if diff := cmp.Diff(want, tried); diff != "" {
		t.Errorf("plans that are tried and required (-want +got):\n%s", diff)
	}
}

// A pod is broken at the last step after which it exists, and a second time where it was alone: the status has to change
// then.
func TestApplicationPlans(t *testing.T) {
	t.Parallel()
	first := baseline.Pod{Name: "pods/a-0", Containers: []string{"main"}}
	second := baseline.Pod{Name: "deployments.apps/b", Containers: []string{"main", "proxy"}}
	byUser := baseline.Pod{Name: "pods/c", Containers: []string{"main"}, Stays: true}
	in := &fault.Input{
		Steps: []string{"create", "scale up"},
		Baseline: &baseline.Baseline{
			Pods: [][]baseline.Pod{{first}, {first, second, byUser}, {second}}, // the last one is after the deletion
		},
	}
	var got []string
	for _, p := range fault.Plans(in) {
		if fault.Includes("application", p.Fault) {
			got = append(got, fmt.Sprintf("%s after %d", p.Name, p.Step))
			losesNode := slices.Contains([]string{"application-unreachable", "application-lost", "application-partitioned"}, p.Fault)
			if p.LosesNode != losesNode {
				t.Errorf("%s affects other runs: %t, want %t", p.Name, p.LosesNode, losesNode)
			}
		}
	}
	want := []string{
		"application-killed/pods/a-0 after 2",
		"application-oom/pods/a-0 after 2",
		"application-paused/pods/a-0 after 2",
		"application-paused/pods/a-0@create after 1",
		"application-evicted/pods/a-0 after 2",
		"application-disk-full/pods/a-0 after 2",
		"application-killed/deployments.apps/b/main after 2",
		"application-killed/deployments.apps/b/proxy after 2",
		"application-oom/deployments.apps/b/main after 2",
		"application-oom/deployments.apps/b/proxy after 2",
		"application-paused/deployments.apps/b/main after 2",
		"application-paused/deployments.apps/b/proxy after 2",
		"application-evicted/deployments.apps/b after 2",
		"application-disk-full/deployments.apps/b after 2",
		"application-killed/pods/c after 2",
		"application-oom/pods/c after 2",
		"application-paused/pods/c after 2",
		"application-unreachable/pods/a-0 after 2",
		"application-lost/pods/a-0 after 2",
		"application-partitioned/pods/a-0 after 2",
		"application-unreachable/deployments.apps/b after 2",
		"application-lost/deployments.apps/b after 2",
		"application-partitioned/deployments.apps/b after 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}
