package limiter_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
)

var begin = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

const maxTime = 30 * time.Minute

// pendingEntry returns a workload that has been pending since that minute.
func pendingEntry(minute int) limiter.Entry {
	return limiter.Entry{Version: "1", Pending: true, Since: begin.Add(time.Duration(minute) * time.Minute)}
}

func key(namespace, name string) limiter.Key {
	return limiter.Key{Kind: "Deployment", Namespace: namespace, Name: name}
}

// fixture is a limiter that records its callbacks.
type fixture struct {
	*limiter.Limiter

	now           time.Time
	enqueued      []string
	pending, held int
}

func newFixture(limit, perNamespace int) *fixture {
	f := &fixture{now: begin.Add(time.Hour)}
	f.Limiter = limiter.New(limiter.Options{
		Limit: limit, PerNamespace: perNamespace, MaxTime: maxTime,
		Enqueue: func(k limiter.Key) { f.enqueued = append(f.enqueued, k.Name) },
		Changed: func(_ string, pending, held int) { f.pending += pending; f.held += held },
		Now:     func() time.Time { return f.now },
	})
	return f
}

func (f *fixture) acquire(t *testing.T, want bool, k limiter.Key, minute int) {
	t.Helper()
	if got := f.Acquire(k, begin.Add(time.Duration(minute)*time.Minute)); got != want {
		t.Errorf("%s may start: %v, want %v", k, got, want)
	}
}

func TestLimitOfANamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(4, 2)
	for i := range 3 {
		f.Observe(key("x", strconv.Itoa(i)), pendingEntry(i))
	}
	f.acquire(t, true, key("x", "0"), 0)
	f.acquire(t, true, key("x", "0"), 0) // it has a slot already
	f.acquire(t, true, key("x", "1"), 1)
	f.acquire(t, false, key("x", "2"), 2)
	f.Observe(key("y", "3"), pendingEntry(3))
	f.acquire(t, true, key("y", "3"), 3)
}

func TestLimitOfAll(t *testing.T) {
	t.Parallel()
	f := newFixture(2, 2)
	for i, namespace := range []string{"x", "y", "z"} {
		f.Observe(key(namespace, "a"), pendingEntry(i))
	}
	f.acquire(t, true, key("x", "a"), 0)
	f.acquire(t, false, key("z", "a"), 2) // the other slot belongs to the older one
	f.acquire(t, true, key("y", "a"), 1)
	f.acquire(t, false, key("z", "a"), 2)
}

func TestOldestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(1, 1)
	important := pendingEntry(9)
	important.Priority = 1
	f.Observe(key("x", "young"), pendingEntry(5))
	f.Observe(key("x", "old"), pendingEntry(1))
	f.Observe(key("x", "important"), important)
	f.acquire(t, false, key("x", "young"), 5)
	f.acquire(t, false, key("x", "old"), 1)
	f.SetReadiness(key("x", "important"), limiter.Blocked, "OutsideWindow")
	f.acquire(t, true, key("x", "old"), 1)
	f.Observe(key("x", "old"), limiter.Entry{Version: "2", Rolling: true})
	f.Release(key("x", "old"))
	f.acquire(t, false, key("x", "young"), 5)
	f.enqueued = nil
	f.Observe(key("x", "old"), limiter.Entry{Version: "3"})
	if diff := cmp.Diff([]string{"young"}, f.enqueued); diff != "" {
		t.Errorf("enqueued when there is a free slot, -want +got:\n%s", diff)
	}
	f.acquire(t, true, key("x", "young"), 5)
}

// Own writes are not overwritten by stale events.
func TestOwnWritesCount(t *testing.T) {
	t.Parallel()
	f := newFixture(1, 1)
	f.Observe(key("x", "a"), pendingEntry(0))
	f.Observe(key("x", "b"), pendingEntry(1))
	f.acquire(t, true, key("x", "a"), 0)
	f.Observe(key("x", "a"), limiter.Entry{Version: "10", Rolling: true})
	f.Release(key("x", "a"))
	f.Observe(key("x", "a"), limiter.Entry{Version: "9"}) // from a stale cache
	for version, want := range map[string]bool{"9": false, "10": true, "11": false} {
		if f.Current(key("x", "a"), version) != want {
			t.Errorf("version %s counts as current: %v", version, !want)
		}
	}
	f.acquire(t, false, key("x", "b"), 1)
	f.Observe(key("x", "a"), limiter.Entry{Version: "11"})
	f.acquire(t, true, key("x", "b"), 1)
}

// A failed write frees the slot.
func TestReleaseAndForget(t *testing.T) {
	t.Parallel()
	f := newFixture(1, 1)
	f.Observe(key("x", "a"), pendingEntry(0))
	f.Observe(key("x", "b"), pendingEntry(1))
	f.acquire(t, true, key("x", "a"), 0)
	f.acquire(t, false, key("x", "b"), 1)
	f.Release(key("x", "a"))
	f.acquire(t, false, key("x", "b"), 1) // a is older
	f.Remove(key("x", "a"))
	f.acquire(t, true, key("x", "b"), 1)
	f.acquire(t, false, key("x", "a"), 0) // it is not known
}

// After a failed write, the delay of the reconcile applies. Without it, a stale cache causes hundreds of conflicts a second.
func TestReleaseEnqueuesOthersOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(2, 2)
	f.Observe(key("x", "a"), pendingEntry(0))
	f.Observe(key("x", "b"), pendingEntry(1))
	f.acquire(t, true, key("x", "a"), 0)
	f.enqueued = nil
	f.Release(key("x", "a"))
	if diff := cmp.Diff([]string{"b"}, f.enqueued); diff != "" {
		t.Errorf("enqueued after the release of a, -want +got:\n%s", diff)
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	f := newFixture(2, 2)
	failed := limiter.Entry{Version: "1", Failed: true}
	f.Observe(key("x", "bad"), failed)
	f.Observe(key("y", "bad"), failed)
	f.Observe(key("x", "next"), pendingEntry(0))
	if diff := cmp.Diff([]limiter.Key{key("x", "bad")}, f.Failed("x")); diff != "" {
		t.Errorf("failed, -want +got:\n%s", diff)
	}
	for _, test := range []struct {
		readiness limiter.Readiness
		reason    string
		changed   bool
	}{
		{limiter.Held, "RolloutHeld", true},
		{limiter.Held, "RolloutHeld", false},
		{limiter.Blocked, "QuietPeriod", true},
		{limiter.Blocked, "Paused", true},
		{limiter.Held, "RolloutHeld", true},
	} {
		if got := f.SetReadiness(key("x", "next"), test.readiness, test.reason); got != test.changed {
			t.Errorf("SetReadiness reports %v for %s, want %v", got, test.reason, test.changed)
		}
	}
	if f.pending != 1 || f.held != 1 {
		t.Errorf("%d are pending and %d held, want one", f.pending, f.held)
	}
	f.Observe(key("y", "bad"), limiter.Entry{Version: "2"})
	if len(f.enqueued) > 0 {
		t.Errorf("%v are enqueued by an event in another namespace", f.enqueued)
	}
	f.Observe(key("x", "bad"), limiter.Entry{Version: "2"})
	if diff := cmp.Diff([]string{"next"}, f.enqueued); diff != "" {
		t.Errorf("woken, -want +got:\n%s", diff)
	}
	if f.held != 0 {
		t.Errorf("%d are held, want none", f.held)
	}
	f.Remove(key("x", "next"))
	if f.pending != 0 || f.held != 0 {
		t.Errorf("%d are pending and %d held, want none", f.pending, f.held)
	}
}

// Namespaces take turns, in the order in which they began to wait. Neither a time nor a priority that a user wrote changes
// that.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(1, 1)
	f.Observe(key("victim", "a"), pendingEntry(9))
	for _, namespace := range []string{"eve-1", "eve-2"} {
		for i := range 2 {
			forged := pendingEntry(-1e6)
			forged.Priority = 1000
			f.Observe(key(namespace, strconv.Itoa(i)), forged)
		}
	}
	var order []limiter.Key
	for range 5 {
		for _, k := range []limiter.Key{
			key("eve-1", "0"), key("eve-1", "1"), key("eve-2", "0"), key("eve-2", "1"), key("victim", "a"),
		} {
			if !slices.Contains(order, k) && f.Acquire(k, begin) {
				order = append(order, k)
				f.Observe(k, limiter.Entry{Version: "2"})
				f.Release(k)
				break
			}
		}
	}
	want := []limiter.Key{
		key("victim", "a"), key("eve-1", "0"), key("eve-2", "0"), key("eve-1", "1"), key("eve-2", "1"),
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of rollouts, -want +got:\n%s", diff)
	}
}

// A free slot goes to the namespace with the fewest slots.
func TestFewestSlotsFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(3, 2)
	for i := range 3 {
		f.Observe(key("many", strconv.Itoa(i)), pendingEntry(i))
	}
	f.acquire(t, true, key("many", "0"), 0)
	f.Observe(key("one", "a"), pendingEntry(5))
	f.Observe(key("two", "a"), pendingEntry(6))
	f.acquire(t, false, key("many", "1"), 1)
	f.acquire(t, true, key("one", "a"), 5)
	f.acquire(t, true, key("two", "a"), 6)
	f.acquire(t, false, key("many", "1"), 1)
}

// Annotations that claim rollouts in progress take no more slots from others than the share of their namespace.
func TestForgedRolloutsTakeTheShareOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(3, 2)
	for i := range 20 {
		f.Observe(key("eve", strconv.Itoa(i)), limiter.Entry{Version: "1", Rolling: true})
	}
	f.Observe(key("eve", "more"), pendingEntry(0))
	f.Observe(key("victim", "a"), pendingEntry(1))
	f.acquire(t, false, key("eve", "more"), 0)
	f.acquire(t, true, key("victim", "a"), 1)
}

// A rollout that lasts for the maximal time takes no slot from other namespaces, but still one of its own.
func TestMaxTime(t *testing.T) {
	t.Parallel()
	f := newFixture(2, 1)
	f.Observe(key("eve-1", "a"), limiter.Entry{Version: "1", Rolling: true, Started: f.now.Add(-10 * time.Minute)})
	f.Observe(key("eve-2", "a"), limiter.Entry{Version: "1", Rolling: true, Started: f.now.Add(time.Hour)}) // forged
	f.Observe(key("victim", "a"), pendingEntry(0))
	f.Observe(key("eve-1", "b"), pendingEntry(0))
	f.acquire(t, false, key("victim", "a"), 0)
	if got := f.UntilFree(); got != 20*time.Minute {
		t.Errorf("a slot is free after %v, want 20m", got)
	}
	f.now = f.now.Add(20 * time.Minute)
	f.acquire(t, false, key("eve-1", "b"), 0)
	f.acquire(t, true, key("victim", "a"), 0)
	if got := f.UntilFree(); got != 10*time.Minute {
		t.Errorf("the next one is free after %v, want 10m", got)
	}
	f.now = f.now.Add(time.Hour)
	if got := f.UntilFree(); got != 0 {
		t.Errorf("another one is free after %v, want none", got)
	}
}
