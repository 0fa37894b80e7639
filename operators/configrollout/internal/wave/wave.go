// Package wave lets rollouts start one after the other. What it knows is what workloads say of themselves, so that a
// process that begins knows as much as one that ended.
package wave

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Key names a workload.
type Key struct{ Kind, Namespace, Name string }

// String is "Kind namespace/name".
func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

// Entry is what one version of a workload says.
type Entry struct {
	// Version is the resourceVersion.
	Version string
	// Rolling means that a rollout of ours is under way.
	Rolling bool
	// Failed means that the last one failed, and that this is to hold others.
	Failed bool
	// Pending means that it waits for a rollout, since Since. Those with a greater Priority go first.
	Pending  bool
	Since    time.Time
	Priority int
}

// Verdict is what came of the last look at a workload that is pending.
type Verdict int

// The verdicts.
const (
	// Unknown counts as ready: nobody overtakes it because it was not looked at yet.
	Unknown Verdict = iota
	// Ready waits for nothing but others.
	Ready
	// Held waits for another workload that failed.
	Held
	// Blocked waits for something else.
	Blocked
)

// Wave is safe for concurrent use.
type Wave struct {
	limit, perNamespace int
	wake                func(Key)
	changed             func(namespace string, pending, held int)

	mu      sync.Mutex
	entries map[Key]*state
}

type state struct {
	Entry

	verdict  Verdict
	reserved bool // a rollout is about to be written
}

// New returns a wave that lets so many rollouts be under way at once, in all and in one namespace. It calls wake for a
// workload that should be looked at again, and changed with the numbers by which pending and held workloads became more.
// Neither may call the wave.
func New(limit, perNamespace int, wake func(Key), changed func(namespace string, pending, held int)) *Wave {
	return &Wave{limit: limit, perNamespace: perNamespace, wake: wake, changed: changed, entries: map[Key]*state{}}
}

// Observe takes note of a version of a workload, unless a later one is known.
func (w *Wave) Observe(key Key, e Entry) {
	w.change(key, func(s *state) *state {
		if s == nil {
			return &state{Entry: e}
		}
		if older(e.Version, s.Version) {
			return s
		}
		s.Entry = e
		return s
	})
}

// Forget takes note that there is no such workload.
func (w *Wave) Forget(key Key) { w.change(key, func(*state) *state { return nil }) }

// Judge takes note of what a look at the workload came to, and reports whether that is news.
func (w *Wave) Judge(key Key, v Verdict) (news bool) {
	w.change(key, func(s *state) *state {
		if s != nil {
			news = s.verdict != v
			s.verdict = v
		}
		return s
	})
	return news
}

// Current reports whether that is the latest version of the workload that is known: an older one is from before a write of
// our own, and of a newer one the news are on their way.
func (w *Wave) Current(key Key, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.entries[key]
	return s != nil && s.Version == version
}

// Failed lists the workloads of a namespace whose last rollout failed.
func (w *Wave) Failed(namespace string) []Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed []Key
	for key, s := range w.entries {
		if s.Failed && key.Namespace == namespace {
			failed = append(failed, key)
		}
	}
	slices.SortFunc(failed, compareKeys)
	return failed
}

// Acquire reports whether a rollout of the workload, pending since then, may start. If so it counts as under way until
// Release, or until a version of it is observed that says otherwise. If not, the workload is woken when it is its turn.
func (w *Wave) Acquire(key Key, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.entries[key]
	if s == nil {
		return false
	}
	w.update(key, s, func() { s.Pending, s.Since, s.verdict = true, since, Ready })
	if s.Rolling || s.reserved || slices.Contains(w.turn(), key) {
		s.reserved = true
		return true
	}
	return false
}

// Release ends what Acquire began if the rollout could not be written, or if it was.
func (w *Wave) Release(key Key) {
	w.change(key, func(s *state) *state {
		if s != nil {
			s.reserved = false
		}
		return s
	})
}

// change applies a change to what is known of a workload and wakes those whom it concerns.
func (w *Wave) change(key Key, f func(*state) *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.entries[key]
	was := before.summary()
	after := f(before)
	if after == nil {
		delete(w.entries, key)
	} else {
		w.entries[key] = after
	}
	is := after.summary()
	w.count(key, was, is)
	if was.failed && !is.failed {
		for other, s := range w.entries {
			if s.verdict == Held && other.Namespace == key.Namespace {
				w.update(other, s, func() { s.verdict = Unknown }) // the one that has waited longest goes first
				w.wake(other)
			}
		}
	}
	if was.busy && !is.busy || was.waits && !is.waits {
		for _, next := range w.turn() {
			w.wake(next)
		}
	}
}

func (w *Wave) update(key Key, s *state, f func()) {
	was := s.summary()
	f()
	w.count(key, was, s.summary())
}

func (w *Wave) count(key Key, was, is summary) {
	pending, held := number(is.pending)-number(was.pending), number(is.held)-number(was.held)
	if pending != 0 || held != 0 {
		w.changed(key.Namespace, pending, held)
	}
}

// turn lists the workloads whose rollouts may start now. The lock is held.
func (w *Wave) turn() []Key {
	free, perNamespace := w.limit, map[string]int{}
	var waiting []Key
	for key, s := range w.entries {
		switch is := s.summary(); {
		case is.busy:
			free--
			perNamespace[key.Namespace]++
		case is.waits:
			waiting = append(waiting, key)
		}
	}
	if free <= 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b Key) int {
		x, y := w.entries[a], w.entries[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since), compareKeys(a, b))
	})
	turn := make([]Key, 0, free)
	for _, key := range waiting {
		if len(turn) < free && perNamespace[key.Namespace] < w.perNamespace {
			perNamespace[key.Namespace]++
			turn = append(turn, key)
		}
	}
	return turn
}

// summary is what of a state concerns others.
type summary struct{ busy, waits, failed, pending, held bool }

func (s *state) summary() summary {
	if s == nil {
		return summary{}
	}
	busy := s.Rolling || s.reserved
	return summary{
		busy: busy, waits: s.Pending && !busy && s.verdict < Held, failed: s.Failed,
		pending: s.Pending, held: s.Pending && s.verdict == Held,
	}
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
