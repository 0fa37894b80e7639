package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
)

// A clock that was years ahead for some time neither stops copies nor expires existing ones.
func TestClockFarAhead(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 0 * * *")
	s.makeCopies(2, done)
	s.o.Spec.Retention = v1.SnapshotRetention{KeepLast: 7, MaxAge: &metav1.Duration{Duration: 240 * time.Hour}}
	right := s.now
	s.o.Status.LastScheduleTime = new(metav1.NewTime(right.AddDate(14, 0, 0)))
	s.o.Status.LastSuccessfulTime = s.o.Status.LastScheduleTime
	if got := policy.Prunable(s.o, right); len(got) > 0 {
		t.Errorf("copies of these days go: %v", got)
	}
	s.reconcile(0, none)
	s.reconcile(24*time.Hour, none)
	if want := desired.RunName(s.o, right.Truncate(24*time.Hour).Add(24*time.Hour)); s.active() != want {
		t.Errorf("%q is being made, want %s", s.active(), want)
	}
}

// A clock that was ahead by less than the starting deadline leads to one copy for each time.
func TestClockSlightlyAhead(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 * * * *")
	s.reconcile(time.Hour, none)
	s.reconcile(time.Minute, done)
	before := s.names()
	for range 3 {
		s.reconcile(-20*time.Minute, none)
	}
	if s.active() != "" || !cmp.Equal(before, s.names()) || s.o.Status.Missed > 0 {
		t.Errorf("%q is being made although there is %v", s.active(), before)
	}
}

// The finish time of a copy is that of its Job, even if the operator observes it two days later.
func TestFinishTimeOfUnobservedCopy(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 0 * * *")
	s.reconcile(24*time.Hour, none)
	s.reconcile(time.Minute, running)
	ended := s.now.Add(time.Minute).Truncate(time.Second)
	late := done
	late.CompletedAt = ended
	s.reconcile(48*time.Hour, late)
	if got := s.o.Status; !got.LastSuccessfulTime.Time.Equal(ended) || !got.History[0].FinishedAt.Time.Equal(ended) {
		t.Errorf("it was finished at %s and %s, not at %s", got.LastSuccessfulTime, got.History[0].FinishedAt, ended)
	}
}

// A result that was lost with its pod is reported by a repeated Job, within the deadline of the copy.
func TestLostResult(t *testing.T) {
	t.Parallel()
	s := newSimulation(t, "0 0 * * *")
	s.reconcile(24*time.Hour, none)
	lost := policy.Attempt{State: policy.ResultLost, Message: "gone"}
	s.reconcile(time.Minute, lost)
	if s.active() == "" || s.o.Status.ConsecutiveFailures > 0 {
		t.Fatalf("it failed: %+v", s.o.Status.History)
	}
	s.reconcile(time.Minute, done)
	if len(s.names()) != 1 {
		t.Errorf("there are %v", s.names())
	}
	s.reconcile(24*time.Hour, none)
	s.reconcile(time.Minute, lost)
	s.reconcile(3*time.Hour, lost)
	if s.active() != "" || s.o.Status.ConsecutiveFailures != 1 {
		t.Errorf("it never ends: %+v", s.o.Status)
	}
}
