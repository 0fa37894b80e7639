package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/status"
)

// makeCopies makes n copies, one a day.
func (s *simulation) makeCopies(n int, end policy.Attempt) {
	s.t.Helper()
	for range n {
		s.reconcile(24*time.Hour, none)
		s.reconcile(0, end)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		keep    int32
		age     time.Duration
		do      func(*simulation)
		want    []string // days of the remaining copies, newest first
		reasons string
	}{
		"by number": {2, 0, func(s *simulation) { s.makeCopies(4, done) }, []string{"05", "04"}, "True/Enforced"},
		"by age": {
			9, 36 * time.Hour, func(s *simulation) { s.makeCopies(4, done) }, []string{"05", "04"}, "True/Enforced",
		},
		"never the last": {9, time.Hour, func(s *simulation) { s.makeCopies(2, done) }, []string{"03"}, "True/Enforced"},
		"none after failures": {
			2, 36 * time.Hour, func(s *simulation) { s.makeCopies(2, done); s.makeCopies(10, broken) },
			[]string{"03", "02"},
			"False/ProtectedLastGood",
		},
		"the last is old": {
			2, 36 * time.Hour, func(s *simulation) { s.makeCopies(1, done); s.reconcile(37*time.Hour, running) },
			[]string{"02"},
			"False/ProtectedLastGood",
		},
		"failures do not count": {
			2, 0, func(s *simulation) { s.makeCopies(1, done); s.makeCopies(3, broken); s.makeCopies(1, done) },
			[]string{"06", "02"},
			"True/Enforced",
		},
		"the first success lets the old ones go": {
			2, 36 * time.Hour, func(s *simulation) { s.makeCopies(2, done); s.makeCopies(10, broken); s.makeCopies(1, done) },
			[]string{"14"},
			"True/Enforced",
		},
		"not when less is asked for, but after the next": {
			9, 0, func(s *simulation) {
				s.makeCopies(4, done)
				s.o.Spec.Retention.KeepLast = 1
				s.reconcile(time.Hour, none)
			}, []string{"05", "04", "03", "02"}, "False/ProtectedLastGood",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, "0 0 * * *")
			s.o.Spec.Retention = v1.SnapshotRetention{KeepLast: c.keep}
			if c.age != 0 {
				s.o.Spec.Retention.MaxAge = &metav1.Duration{Duration: c.age}
			}
			c.do(s)
			var got []string
			for _, name := range s.names() {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(name, "a-202601"), "0000"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the wrong copies stay, -want +got:\n%s", diff)
			}
			if got := s.reason(v1.ConditionRetention); got != c.reasons {
				t.Errorf("RetentionEnforced is %s, want %s", got, c.reasons)
			}
		})
	}
}

// The last copy is never prunable, regardless of the times in the status.
func TestRetentionKeepsLastCopy(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 0 * * *")
	s.makeCopies(2, done)
	s.o.Spec.Retention = v1.SnapshotRetention{MaxAge: &metav1.Duration{Duration: time.Hour}}
	s.o.Status.LastSuccessfulTime.Time = s.now.Add(240 * time.Hour)
	if diff := cmp.Diff([]string{"a-202601020000"}, policy.Prunable(s.o, s.now)); diff != "" {
		t.Errorf("the wrong copies go, -want +got:\n%s", diff)
	}
}

// Held copies stay in the history and do not count for keepLast.
func TestHeldCopies(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 0 * * *")
	s.makeCopies(2, done)
	s.reconcile(24*time.Hour, none)
	l := s.tracker()
	l.Observe(done)
	if diff := cmp.Diff([]string{"a-202601020000"}, policy.Prunable(s.o, s.now)); diff != "" {
		t.Fatalf("the wrong copies go, -want +got:\n%s", diff)
	}
	l.RecordRetention(nil, policy.Prunable(s.o, s.now))
	status.Set(l)
	if got := s.reason(v1.ConditionRetention); got != "True/Held" || len(s.names()) != 3 || policy.RetentionPending(s.o) {
		t.Errorf("RetentionEnforced is %s, copies %s, pruning %t", got, s.names(), policy.RetentionPending(s.o))
	}
	s.reconcile(24*time.Hour, none)
	l = s.tracker()
	l.Observe(done)
	if diff := cmp.Diff([]string{"a-202601020000", "a-202601030000"}, policy.Prunable(s.o, s.now)); diff != "" {
		t.Errorf("the wrong copies go, -want +got:\n%s", diff)
	}
}

func TestRecordPrune(t *testing.T) {
	t.Parallel()
	asked := []string{"a-202601020000"}
	for reason, c := range map[string]struct {
		p      policy.PruneResult
		left   int
		reason string
	}{
		"all are gone": {policy.PruneResult{
			Attempt: policy.Attempt{State: policy.Succeeded}, Requested: asked,
			Left: []string{"a-202601040000", "a-202601030000"},
		}, 2, "True/Enforced"},
		"one is held": {policy.PruneResult{
			Attempt: policy.Attempt{State: policy.Succeeded}, Requested: asked,
			Left: []string{"a-202601040000", "a-202601020000"},
		}, 3, "True/Held"},
		"it failed": {policy.PruneResult{
			Attempt: policy.Attempt{State: policy.Failed, Message: "read-only"},
		}, 3, "False/PruneFailed"},
		"the last copy is not there": {policy.PruneResult{
			Attempt: policy.Attempt{State: policy.Succeeded}, Requested: asked, Left: []string{"a-202601030000"},
		}, 3, "False/CopyMissing"},
		"it is not said whether the last copy is there": {policy.PruneResult{
			Attempt: policy.Attempt{State: policy.Succeeded}, Requested: asked, Left: []string{"b-202601030000"}, More: 1,
		}, 2, "True/Enforced"},
		"it runs": {policy.PruneResult{Attempt: running}, 3, "False/Pruning"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, "0 0 * * *")
			s.makeCopies(2, done)
			s.reconcile(24*time.Hour, none)
			for range 2 { // the second time is idempotent
				l := s.tracker()
				if s.o.Status.Active != nil {
					l.Observe(done)
				}
				if policy.RetentionPending(s.o) {
					l.RecordPrune(c.p)
				}
				status.Set(l)
			}
			if got := s.reason(v1.ConditionRetention); got != c.reason || len(s.names()) != c.left {
				t.Errorf("RetentionEnforced is %s with copies %s, want %s with %d", got, s.names(), c.reason, c.left)
			}
		})
	}
}
