package wave_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
)

var begin = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// waiter is a workload that has been pending since so many minutes after the beginning.
func waiter(minute int) wave.Entry {
	return wave.Entry{Version: "1", Pending: true, Since: begin.Add(time.Duration(minute) * time.Minute)}
}

func key(namespace, name string) wave.Key {
	return wave.Key{Kind: "Deployment", Namespace: namespace, Name: name}
}

// world is a wave and what it told.
type world struct {
	*wave.Wave

	woken         []string
	pending, held int
}

func newWorld(limit, perNamespace int) *world {
	w := &world{}
	w.Wave = wave.New(limit, perNamespace, func(k wave.Key) { w.woken = append(w.woken, k.Name) },
		func(_ string, pending, held int) { w.pending += pending; w.held += held })
	return w
}

func (w *world) acquire(t *testing.T, want bool, k wave.Key, minute int) {
	t.Helper()
	if got := w.Acquire(k, begin.Add(time.Duration(minute)*time.Minute)); got != want {
		t.Errorf("%s may start: %v, want %v", k, got, want)
	}
}

func TestLimitOfANamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(4, 2)
	for i := range 3 {
		w.Observe(key("x", strconv.Itoa(i)), waiter(i))
	}
	w.acquire(t, true, key("x", "0"), 0)
	w.acquire(t, true, key("x", "0"), 0) // it has its place already
	w.acquire(t, true, key("x", "1"), 1)
	w.acquire(t, false, key("x", "2"), 2)
	w.Observe(key("y", "3"), waiter(3))
	w.acquire(t, true, key("y", "3"), 3)
}

func TestLimitOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(2, 2)
	for i, namespace := range []string{"x", "y", "z"} {
		w.Observe(key(namespace, "a"), waiter(i))
	}
	w.acquire(t, true, key("x", "a"), 0)
	w.acquire(t, false, key("z", "a"), 2) // the other place is for the one that has waited longer
	w.acquire(t, true, key("y", "a"), 1)
	w.acquire(t, false, key("z", "a"), 2)
}

func TestTheOldestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(1, 1)
	important := waiter(9)
	important.Priority = 1
	w.Observe(key("x", "young"), waiter(5))
	w.Observe(key("x", "old"), waiter(1))
	w.Observe(key("x", "important"), important)
	w.acquire(t, false, key("x", "young"), 5)
	w.acquire(t, false, key("x", "old"), 1)
	w.Judge(key("x", "important"), wave.Blocked) // by its window
	w.acquire(t, true, key("x", "old"), 1)
	w.Observe(key("x", "old"), wave.Entry{Version: "2", Rolling: true})
	w.Release(key("x", "old"))
	w.acquire(t, false, key("x", "young"), 5)
	w.woken = nil
	w.Observe(key("x", "old"), wave.Entry{Version: "3"})
	if diff := cmp.Diff([]string{"young"}, w.woken); diff != "" {
		t.Errorf("woken when there is room, -want +got:\n%s", diff)
	}
	w.acquire(t, true, key("x", "young"), 5)
}

// A write of our own counts although the news of the workload are older.
func TestOwnWritesCount(t *testing.T) {
	t.Parallel()
	w := newWorld(1, 1)
	w.Observe(key("x", "a"), waiter(0))
	w.Observe(key("x", "b"), waiter(1))
	w.acquire(t, true, key("x", "a"), 0)
	w.Observe(key("x", "a"), wave.Entry{Version: "10", Rolling: true})
	w.Release(key("x", "a"))
	w.Observe(key("x", "a"), wave.Entry{Version: "9"}) // from a cache that lags behind
	for version, want := range map[string]bool{"9": false, "10": true, "11": false} {
		if w.Current(key("x", "a"), version) != want {
			t.Errorf("version %s counts as current: %v", version, !want)
		}
	}
	w.acquire(t, false, key("x", "b"), 1)
	w.Observe(key("x", "a"), wave.Entry{Version: "11"})
	w.acquire(t, true, key("x", "b"), 1)
}

// A rollout that could not be written gives its place back.
func TestReleaseAndForget(t *testing.T) {
	t.Parallel()
	w := newWorld(1, 1)
	w.Observe(key("x", "a"), waiter(0))
	w.Observe(key("x", "b"), waiter(1))
	w.acquire(t, true, key("x", "a"), 0)
	w.acquire(t, false, key("x", "b"), 1)
	w.Release(key("x", "a"))
	w.acquire(t, false, key("x", "b"), 1) // a is older
	w.Forget(key("x", "a"))
	w.acquire(t, true, key("x", "b"), 1)
	w.acquire(t, false, key("x", "a"), 0) // it is not known
}

func TestHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(2, 2)
	failed := wave.Entry{Version: "1", Failed: true}
	w.Observe(key("x", "bad"), failed)
	w.Observe(key("y", "bad"), failed)
	w.Observe(key("x", "next"), waiter(0))
	if diff := cmp.Diff([]wave.Key{key("x", "bad")}, w.Failed("x")); diff != "" {
		t.Errorf("failed, -want +got:\n%s", diff)
	}
	if !w.Judge(key("x", "next"), wave.Held) || w.Judge(key("x", "next"), wave.Held) {
		t.Error("news are not told from what was known")
	}
	if w.pending != 1 || w.held != 1 {
		t.Errorf("%d are pending and %d held, want one", w.pending, w.held)
	}
	w.Observe(key("y", "bad"), wave.Entry{Version: "2"})
	if len(w.woken) > 0 {
		t.Errorf("%v are woken by what happened in another namespace", w.woken)
	}
	w.Observe(key("x", "bad"), wave.Entry{Version: "2"})
	if diff := cmp.Diff([]string{"next"}, w.woken); diff != "" {
		t.Errorf("woken, -want +got:\n%s", diff)
	}
	if w.held != 0 {
		t.Errorf("%d are held, want none", w.held)
	}
	w.Forget(key("x", "next"))
	if w.pending != 0 || w.held != 0 {
		t.Errorf("%d are pending and %d held, want none", w.pending, w.held)
	}
}
