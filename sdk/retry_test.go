package sdk

import (
	"errors"
	"testing"
	"time"
)

func rejected(reason, message string) *problem {
	return &problem{class: classRejected, reason: reason, message: message}
}

func TestRefusedIntentIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	p, now := patience{}, time.Now()
	var last time.Duration
	for range 12 {
		refusal := rejected("ThingRejected", "")
		if err := p.refused(about{digest: "d1"}, refusal, now); !errors.Is(err, refusal) {
			t.Fatalf("reported %v", err)
		}
		if refusal.after < last || refusal.after < 800*time.Millisecond {
			t.Fatalf("the next attempt is after %s, and the one before was after %s", refusal.after, last)
		}
		if p.check(about{digest: "d1"}, now.Add(refusal.after-1)) == nil {
			t.Fatal("a request may be made too early")
		}
		if p.check(about{digest: "d2"}, now) != nil {
			t.Fatal("a new intent has to wait for the old one's refusals")
		}
		now, last = now.Add(refusal.after), refusal.after
		if err := p.check(about{digest: "d1"}, now); err != nil {
			t.Fatalf("no request may be made when its time has come: %v", err)
		}
	}
	if last != 5*time.Minute {
		t.Errorf("in the end it waits %s, want 5m0s", last)
	}
	p.applied(about{digest: "d1"}, now)
	refusal := rejected("", "")
	if _ = p.refused(about{digest: "d1"}, refusal, now); refusal.after != 800*time.Millisecond {
		t.Errorf("after a success the wait starts with %s", refusal.after)
	}
}

// A refusal is about one object: its successor, and the lack of one, start anew.
func TestRefusalIsAboutOneInstance(t *testing.T) {
	t.Parallel()
	p, now := patience{}, time.Now()
	one, other, none := about{uid: "u1", digest: "d1"}, about{uid: "u2", digest: "d1"}, about{digest: "d1"}
	_ = p.refused(one, rejected("ImmutableField", "no"), now)
	if p.check(one, now) == nil || p.check(other, now) != nil || p.check(none, now) != nil {
		t.Error("the refusal is not reported for the object that it is about, or for another one")
	}
	err := p.check(one, now.Add(500*time.Millisecond))
	if classify(err) != classRejected || err.Error() != "no" || waitAfter(err) != 300*time.Millisecond {
		t.Errorf("after 500 of 800 ms it reports %v, and to look again after %s", err, waitAfter(err))
	}
	_ = p.refused(none, rejected("", ""), now)
	if p.check(one, now) != nil {
		t.Error("the former object's refusal is remembered")
	}
	t1 := p.of(other)
	t1.err, t1.until = &problem{class: classContended}, now.Add(time.Second)
	if err := p.check(other, now.Add(time.Second-1)); classify(err) != classContended || waitAfter(err) != 1 {
		t.Errorf("just before its end the fight is %v, for another %s", err, waitAfter(err))
	}
}

func TestFight(t *testing.T) {
	t.Parallel()
	fight := func(every time.Duration, digests ...string) (patience, time.Time, bool) {
		p, now, last := patience{}, time.Now(), ""
		for i := range fightApplies {
			now, last = now.Add(every), digests[i%len(digests)]
			p.applied(about{digest: last}, now)
		}
		_, fighting := p.fighting(about{digest: last}, now)
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
		wait, fighting := p.fighting(about{digest: "d1"}, now)
		if !fighting {
			t.Fatal("the fight is over")
		}
		if wait < last {
			t.Errorf("the wait went from %s to %s", last, wait)
		}
		now, last = now.Add(wait), wait
		if _, fighting := p.fighting(about{digest: "d1"}, now); fighting {
			t.Fatal("no attempt may be made when its time has come")
		}
		p.applied(about{digest: "d1"}, now)
	}
	if _, fighting := p.fighting(about{digest: "d1"}, now.Add(peace+1)); fighting {
		t.Error("it is still a fight after ten minutes of peace")
	}
}

// A fight is reported until an attempt has lasted, and not again until the next revert.
func TestTruce(t *testing.T) {
	t.Parallel()
	p, now := patience{}, time.Now()
	for range fightApplies {
		p.applied(about{digest: "d1"}, now)
		if err := p.truce(about{digest: "d1"}, now); err != nil {
			t.Fatalf("an apply alone is reported: %v", err)
		}
	}
	wait, _ := p.fighting(about{digest: "d1"}, now)
	p.of(about{digest: "d1"}).fight = &problem{class: classContended}
	now = now.Add(wait)
	if _, fighting := p.fighting(about{digest: "d1"}, now); fighting {
		t.Fatal("no attempt may be made when its time has come")
	}
	p.applied(about{digest: "d1"}, now)
	if err := p.truce(about{digest: "d1"}, now.Add(wait-1)); classify(err) != classContended || waitAfter(err) != 1 {
		t.Errorf("just before its end the truce is %v, for another %s", err, waitAfter(err))
	}
	if err := p.truce(about{digest: "d2"}, now); err != nil {
		t.Errorf("a new intent starts with %v", err)
	}
	if err := p.truce(about{digest: "d1"}, now.Add(wait)); err != nil {
		t.Errorf("after %s without a revert it is still %v", wait, err)
	}
}
