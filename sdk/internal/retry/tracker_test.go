package retry

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

func rejected(reason, message string) *ReconcileError {
	return &ReconcileError{Class: ClassRejected, Reason: reason, Message: message}
}

func TestRejectedIntentBacksOff(t *testing.T) {
	t.Parallel()
	p, now := Tracker{}, time.Now()
	var last time.Duration
	for range 12 {
		rejection := rejected("ThingRejected", "")
		if err := p.RecordRejection(Key{Digest: "d1"}, rejection, now); !errors.Is(err, rejection) {
			t.Fatalf("reported %v", err)
		}
		if rejection.After < last || rejection.After < 800*time.Millisecond {
			t.Fatalf("the next attempt is after %s, and the one before was after %s", rejection.After, last)
		}
		if p.Check(Key{Digest: "d1"}, now.Add(rejection.After-1)) == nil {
			t.Fatal("a request may be made too early")
		}
		if p.Check(Key{Digest: "d2"}, now) != nil {
			t.Fatal("a new intent waits for the rejections of the old one")
		}
		now, last = now.Add(rejection.After), rejection.After
		if err := p.Check(Key{Digest: "d1"}, now); err != nil {
			t.Fatalf("no request may be made when its time has come: %v", err)
		}
	}
	if last != 5*time.Minute {
		t.Errorf("in the end it waits %s, want 5m0s", last)
	}
	p.RecordApply(Key{Digest: "d1"}, now)
	rejection := rejected("", "")
	if _ = p.RecordRejection(Key{Digest: "d1"}, rejection, now); rejection.After != 800*time.Millisecond {
		t.Errorf("after a success the wait starts with %s", rejection.After)
	}
}

// TestRejectionIsPerInstance checks that another instance, or none, starts without the rejection.
func TestRejectionIsPerInstance(t *testing.T) {
	t.Parallel()
	p, now := Tracker{}, time.Now()
	one, other, none := Key{UID: "u1", Digest: "d1"}, Key{UID: "u2", Digest: "d1"}, Key{Digest: "d1"}
	_ = p.RecordRejection(one, rejected("ImmutableField", "no"), now)
	if p.Check(one, now) == nil || p.Check(other, now) != nil || p.Check(none, now) != nil {
		t.Error("the rejection is not reported for its own object, or is reported for another one")
	}
	err := p.Check(one, now.Add(500*time.Millisecond))
	if Classify(err) != ClassRejected || err.Error() != "no" || RequestedDelay(err) != 300*time.Millisecond {
		t.Errorf("after 500 of 800 ms it reports %v, and a retry after %s", err, RequestedDelay(err))
	}
	_ = p.RecordRejection(none, rejected("", ""), now)
	if p.Check(one, now) != nil {
		t.Error("the predecessor's rejection is remembered")
	}
	t1 := p.entry(other)
	t1.err = &ReconcileError{Class: ClassContended}
	t1.notBefore = now.Add(time.Second)
	if err := p.Check(other, now.Add(time.Second-1)); Classify(err) != ClassContended || RequestedDelay(err) != 1 {
		t.Errorf("just before its end the contention is %v, for another %s", err, RequestedDelay(err))
	}
}

func TestContention(t *testing.T) {
	t.Parallel()
	applyEvery := func(every time.Duration, digests ...string) (Tracker, time.Time, bool) {
		p, now, last := Tracker{}, time.Now(), ""
		for i := range contendedApplies {
			now, last = now.Add(every), digests[i%len(digests)]
			p.RecordApply(Key{Digest: last}, now)
		}
		_, contended := p.ContentionDelay(Key{Digest: last}, now)
		return p, now, contended
	}
	if _, _, contended := applyEvery(time.Second, "d1"); !contended {
		t.Error("the same intent was applied four times in as many seconds, and that is no contention")
	}
	if _, _, contended := applyEvery(time.Minute, "d1"); contended {
		t.Error("one apply per minute counts as contention")
	}
	if _, _, contended := applyEvery(time.Second, "d1", "d2"); contended {
		t.Error("changes of the intent count as contention")
	}

	// The attempts become rarer during a contention. A cooldown ends it.
	p, now, _ := applyEvery(time.Second, "d1")
	var last time.Duration
	for range 6 {
		wait, contended := p.ContentionDelay(Key{Digest: "d1"}, now)
		if !contended {
			t.Fatal("the contention is over")
		}
		if wait < last {
			t.Errorf("the wait went from %s to %s", last, wait)
		}
		now, last = now.Add(wait), wait
		if _, contended := p.ContentionDelay(Key{Digest: "d1"}, now); contended {
			t.Fatal("no attempt may be made when its time has come")
		}
		p.RecordApply(Key{Digest: "d1"}, now)
	}
	if _, contended := p.ContentionDelay(Key{Digest: "d1"}, now.Add(contentionCooldown+1)); contended {
		t.Error("it is still a contention after the cooldown")
	}
}

// TestRecentContention checks that a contention is reported until an attempt was not reverted for long enough.
func TestRecentContention(t *testing.T) {
	t.Parallel()
	p, now := Tracker{}, time.Now()
	for range contendedApplies {
		p.RecordApply(Key{Digest: "d1"}, now)
		if err := p.RecentContention(Key{Digest: "d1"}, now); err != nil {
			t.Fatalf("an apply alone is reported: %v", err)
		}
	}
	wait, _ := p.ContentionDelay(Key{Digest: "d1"}, now)
	p.entry(Key{Digest: "d1"}).contention = &ReconcileError{Class: ClassContended}
	now = now.Add(wait)
	if _, contended := p.ContentionDelay(Key{Digest: "d1"}, now); contended {
		t.Fatal("no attempt may be made when its time has come")
	}
	p.RecordApply(Key{Digest: "d1"}, now)
	err := p.RecentContention(Key{Digest: "d1"}, now.Add(wait-1))
	if Classify(err) != ClassContended || RequestedDelay(err) != 1 {
		t.Errorf("just before its end the report is %v, for another %s", err, RequestedDelay(err))
	}
	if err := p.RecentContention(Key{Digest: "d2"}, now); err != nil {
		t.Errorf("a new intent starts with %v", err)
	}
	if err := p.RecentContention(Key{Digest: "d1"}, now.Add(wait)); err != nil {
		t.Errorf("after %s without a revert it is still %v", wait, err)
	}
}

// TestStateOfUnplannedChildrenIsDropped checks that the state is kept for planned children alone, and that the creations of
// a child are counted beside its instances.
func TestStateOfUnplannedChildrenIsDropped(t *testing.T) {
	t.Parallel()
	p, now := Tracker{}, time.Now()
	kept, gone := object.ID{Key: types.NamespacedName{Name: "kept"}}, object.ID{Key: types.NamespacedName{Name: "gone"}}
	for _, id := range []object.ID{kept, gone} {
		for i := range contendedApplies {
			p.RecordApply(Key{Child: id, Creation: true}, now)
			p.RecordApply(Key{Child: id, UID: types.UID(strconv.Itoa(i))}, now)
		}
	}
	p.RetainOnly(func(id object.ID) bool { return id == kept })
	if len(p) != 2 {
		t.Errorf("%d entries are kept, want 2", len(p))
	}
	for key, want := range map[Key]bool{
		{Child: kept, Creation: true}: true, {Child: kept, UID: "3"}: false, {Child: gone, Creation: true}: false,
		{Child: kept, Creation: true, Digest: "new"}: false,
	} {
		if _, contended := p.ContentionDelay(key, now); contended != want {
			t.Errorf("%+v is contended: %t, want %t", key, contended, want)
		}
	}
}
