package fault_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Of the writes of one verb and kind, the one is late that can spoil most, and it arrives when it is out of date.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	cm := intercept.GroupResource{Resource: "configmaps"}
	write := func(verb, object string, step int) baseline.Target {
		return baseline.Target{Verb: verb, Kind: cm, Object: object, Number: step, Step: step, Writes: true, Effective: true}
	}
	versioned, useless, early := write("update", "a", 1), write("update", "a", 1), write("update", "a", 0)
	versioned.Versioned = true
	useless.Effective = false
	for name, test := range map[string]struct {
		calls       []baseline.Target
		checkpoints []state.State
		want        map[string]string // the step after which the write arrives, by plan
	}{
		"WrittenAgain": {
			calls: []baseline.Target{write("patch", "a", 1), write("patch", "a", 2), write("patch", "a", 3)},
			want:  map[string]string{"patch-configmaps-a#2": "three"},
		},
		"LastStep": {
			calls: []baseline.Target{write("patch", "a", 3)},
			want:  map[string]string{"patch-configmaps-a#3": "three"},
		},
		"CreatedAndGone": {
			calls:       []baseline.Target{write("create", "b", 1), write("create", "a", 2)},
			checkpoints: []state.State{{"configmaps/b": 0}, {"configmaps/a": 0}, {"configmaps/a": 0}},
			want:        map[string]string{"create-configmaps-b#1": "two"},
		},
		"DeletedAndBack": {
			calls:       []baseline.Target{write("delete", "b", 1), write("delete", "a", 2)},
			checkpoints: []state.State{{}, {"configmaps/b": 0}, {"configmaps/b": 0}},
			want:        map[string]string{"delete-configmaps-b#1": "two"},
		},
		"UserDeletes": {
			calls:       []baseline.Target{write("patch", "a", 1)},
			checkpoints: []state.State{{"webs.example.com/w": 0}, {}, {}},
			want:        map[string]string{"patch-configmaps-a#1": "one"},
		},
		"Harmless": {
			calls: []baseline.Target{versioned, useless, early, write("update", "a", 4)},
			want:  map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.checkpoints == nil {
				test.checkpoints = make([]state.State, 4)
			}
			in := &fault.Input{Steps: []string{"one", "two", "three"}, Baseline: &baseline.Baseline{
				Calls: test.calls, Checkpoints: test.checkpoints, UserObjects: map[string]bool{"webs.example.com/w": true},
			}}
			got := map[string]string{}
			for _, p := range fault.Plans(in) {
				if target, ok := strings.CutPrefix(p.Name, "failover-paused/"); ok {
					_, after, _ := strings.Cut(p.Summary, `after step "`)
					got[target], _, _ = strings.Cut(after, `"`)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("late writes (-want +got):\n%s", diff)
			}
		})
	}
}
