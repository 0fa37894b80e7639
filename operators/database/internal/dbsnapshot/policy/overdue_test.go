package policy_test

import (
	"testing"
	"time"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
)

func TestOverdue(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 */6 * * *") // first time 06:00
	for _, step := range []struct {
		reason string
		after  time.Duration
		what   policy.Attempt
		want   string
	}{
		{"none is due yet", 0, none, "False/OnTime"},
		{"one that never succeeded is late", 7*time.Hour + time.Minute, none, "True/NoRecentCopy"},
		{"the second is due", 5 * time.Hour, none, "True/NoRecentCopy"},
		{"it succeeded", time.Minute, done, "False/OnTime"},
		{"the next is due", 6 * time.Hour, none, "False/OnTime"},
		{"it is being made for long", 90 * time.Minute, running, "False/OnTime"},
		{"it failed, and may not begin again", time.Minute, broken, "True/NoRecentCopy"},
	} {
		s.reconcile(step.after, step.what)
		if got := s.reason(v1.ConditionOverdue); got != step.want {
			t.Errorf("%s: at %s Overdue is %s, want %s", step.reason, s.now, got, step.want)
		}
	}
	if s.o.Status.Phase != v1.SnapshotOverdue {
		t.Errorf("phase %s", s.o.Status.Phase)
	}
}

func TestOverdueAfterTwoTimes(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "*/5 * * * *")
	s.reconcile(9*time.Minute, none)
	s.reconcile(0, broken)
	if got := s.reason(v1.ConditionOverdue); got != "False/OnTime" {
		t.Errorf("after one time Overdue is %s", got)
	}
	s.reconcile(time.Minute, none)
	if got := s.reason(v1.ConditionOverdue); got != "True/NoRecentCopy" {
		t.Errorf("after two times Overdue is %s", got)
	}
}
