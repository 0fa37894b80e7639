package snapshot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
)

// A clock that was years ahead for a while ends neither the copies nor, once it is right, those that there are.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	s := newSite(t, "0 0 * * *")
	s.copies(2, done)
	s.o.Spec.Retention = v1.SnapshotRetention{KeepLast: 7, MaxAge: &metav1.Duration{Duration: 240 * time.Hour}}
	right := s.now
	s.o.Status.LastScheduleTime = new(metav1.NewTime(right.AddDate(14, 0, 0)))
	s.o.Status.LastSuccessfulTime = s.o.Status.LastScheduleTime
	if got := snapshot.Victims(s.o, right); len(got) > 0 {
		t.Errorf("copies of these days go: %v", got)
	}
	s.pass(0, none)
	s.pass(24*time.Hour, none)
	if want := snapshot.RunName(s.o, right.Truncate(24*time.Hour).Add(24*time.Hour)); s.active() != want {
		t.Errorf("%q is being made, want %s", s.active(), want)
	}
}

// One that was ahead by less than a copy may be late makes no time have two.
func TestClockThatWasALittleAhead(t *testing.T) {
	t.Parallel()
	s := newSite(t, "0 * * * *")
	s.pass(time.Hour, none)
	s.pass(time.Minute, done)
	before := s.names()
	for range 3 {
		s.pass(-20*time.Minute, none)
	}
	if s.active() != "" || !cmp.Equal(before, s.names()) || s.o.Status.Missed > 0 {
		t.Errorf("%q is being made although there is %v", s.active(), before)
	}
}

// Who looks two days later knows how old the copy is.
func TestCopyThatNobodySaw(t *testing.T) {
	t.Parallel()
	s := newSite(t, "0 0 * * *")
	s.pass(24*time.Hour, none)
	s.pass(time.Minute, running)
	ended := s.now.Add(time.Minute).Truncate(time.Second)
	late := done
	late.Ended = ended
	s.pass(48*time.Hour, late)
	if got := s.o.Status; !got.LastSuccessfulTime.Time.Equal(ended) || !got.History[0].FinishedAt.Time.Equal(ended) {
		t.Errorf("it was finished at %s and %s, not at %s", got.LastSuccessfulTime, got.History[0].FinishedAt, ended)
	}
}

// What a Job said that is gone with its pod is said again by another one, for as long as a copy may take.
func TestLostWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, "0 0 * * *")
	s.pass(24*time.Hour, none)
	lost := snapshot.Attempt{State: snapshot.Lost, Message: "gone"}
	s.pass(time.Minute, lost)
	if s.active() == "" || s.o.Status.ConsecutiveFailures > 0 {
		t.Fatalf("it failed: %+v", s.o.Status.History)
	}
	s.pass(time.Minute, done)
	if len(s.names()) != 1 {
		t.Errorf("there are %v", s.names())
	}
	s.pass(24*time.Hour, none)
	s.pass(time.Minute, lost)
	s.pass(3*time.Hour, lost)
	if s.active() != "" || s.o.Status.ConsecutiveFailures != 1 {
		t.Errorf("it goes on for ever: %+v", s.o.Status)
	}
}
