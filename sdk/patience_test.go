package sdk

import (
	"errors"
	"testing"
	"time"
)

func TestRefusedIntentIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	p, now, id := patience{}, time.Now(), childID{}
	var last time.Duration
	for range 12 {
		refusal := &rejectedError{reason: "ThingRejected"}
		if err := p.refused(id, "d1", refusal, now); !errors.Is(err, refusal) {
			t.Fatalf("reported %v", err)
		}
		if refusal.after < last || refusal.after < 800*time.Millisecond {
			t.Fatalf("the next attempt is after %s, and the one before was after %s", refusal.after, last)
		}
		if p.check(id, "d1", now.Add(refusal.after-1)) == nil {
			t.Fatal("a request may be made too early")
		}
		if p.check(id, "d2", now) != nil {
			t.Fatal("a new intent has to wait for the old one's refusals")
		}
		now, last = now.Add(refusal.after), refusal.after
		if err := p.check(id, "d1", now); err != nil {
			t.Fatalf("no request may be made when its time has come: %v", err)
		}
	}
	if last != 5*time.Minute {
		t.Errorf("in the end it waits %s, want 5m0s", last)
	}
	p.applied(id, "d1", now)
	refusal := &rejectedError{}
	if _ = p.refused(id, "d1", refusal, now); refusal.after != 800*time.Millisecond {
		t.Errorf("after a success the wait starts with %s", refusal.after)
	}
}

func TestFight(t *testing.T) {
	t.Parallel()
	fight := func(every time.Duration, digests ...string) (patience, time.Time, bool) {
		p, now, last := patience{}, time.Now(), ""
		for i := range fightApplies {
			now, last = now.Add(every), digests[i%len(digests)]
			p.applied(childID{}, last, now)
		}
		_, fighting := p.fighting(childID{}, last, now)
		return p, now, fighting
	}
	if _, _, fighting := fight(time.Second, "d1"); !fighting {
		t.Error("the same intent was applied four times in as many seconds, and that is no fight")
	}
	if _, _, fighting := fight(time.Minute, "d1"); fighting {
		t.Error("an apply a minute is called a fight")
	}
	if _, _, fighting := fight(time.Second, "d1", "d2"); fighting {
		t.Error("changes of the intent are called a fight")
	}

	// Once it is a fight, the attempts become rarer, and a long peace ends it.
	p, now, _ := fight(time.Second, "d1")
	var last time.Duration
	for range 6 {
		wait, fighting := p.fighting(childID{}, "d1", now)
		if !fighting {
			t.Fatal("the fight is over")
		}
		if wait < last {
			t.Errorf("the wait went from %s to %s", last, wait)
		}
		now, last = now.Add(wait), wait
		if _, fighting := p.fighting(childID{}, "d1", now); fighting {
			t.Fatal("no attempt may be made when its time has come")
		}
		p.applied(childID{}, "d1", now)
	}
	if _, fighting := p.fighting(childID{}, "d1", now.Add(peace+1)); fighting {
		t.Error("it is still a fight after ten minutes of peace")
	}
}

// A fight is reported until an attempt has lasted, and not again until the next revert.
func TestTruce(t *testing.T) {
	t.Parallel()
	p, now, id := patience{}, time.Now(), childID{}
	for range fightApplies {
		p.applied(id, "d1", now)
		if err := p.truce(id, "d1", now); err != nil {
			t.Fatalf("an apply alone is reported: %v", err)
		}
	}
	wait, _ := p.fighting(id, "d1", now)
	p.of(id, "d1").fight = &contendedError{child: "ConfigMap a", rivals: "somebody"}
	now = now.Add(wait)
	if _, fighting := p.fighting(id, "d1", now); fighting {
		t.Fatal("no attempt may be made when its time has come")
	}
	p.applied(id, "d1", now)
	if err := p.truce(id, "d1", now.Add(wait-1)); classify(err) != classContended || waitAfter(err) != 1 {
		t.Errorf("just before its end the truce is %v, for another %s", err, waitAfter(err))
	}
	if err := p.truce(id, "d2", now); err != nil {
		t.Errorf("a new intent starts with %v", err)
	}
	if err := p.truce(id, "d1", now.Add(wait)); err != nil {
		t.Errorf("after %s without a revert it is still %v", wait, err)
	}
}
