// Package limiter limits the concurrent rollouts. Its input is the state in the workloads' annotations, so that a new
// process has the same knowledge as the previous one.
package limiter

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Key identifies a workload.
type Key struct{ Kind, Namespace, Name string }

// String returns "Kind namespace/name".
func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

// Entry is the state of one version of a workload.
type Entry struct {
	// Version is the resourceVersion.
	Version string
	// Rolling means that a rollout by the operator is in progress.
	Rolling bool
	// Failed means that the last one failed and holds other workloads.
	Failed bool
	// Pending means that a rollout has been pending since Since. A greater Priority is rolled first.
	Pending  bool
	Since    time.Time
	Priority int
}

// Readiness is the result of the last reconcile of a pending workload.
type Readiness int

// The readiness values.
const (
	// Unknown counts as ready, so that a workload is not overtaken before its first reconcile.
	Unknown Readiness = iota
	// Ready means that only the limiter delays the rollout.
	Ready
	// Held means that the failure of another workload delays the rollout.
	Held
	// Blocked means that something else delays it.
	Blocked
)

// Limiter limits the concurrent rollouts. It is safe for concurrent use.
type Limiter struct {
	limit, perNamespace int
	enqueue             func(Key)
	changed             func(namespace string, pending, held int)

	mu      sync.Mutex
	entries map[Key]*state
}

type state struct {
	Entry

	readiness Readiness
	reason    string // why the rollout waits
	reserved  bool   // a rollout is about to be written
}

// New returns a limiter for so many concurrent rollouts in all and in one namespace. It calls enqueue for a workload that
// should be reconciled, and changed with the differences of the numbers of pending and held workloads. Neither may call
// the limiter.
func New(limit, perNamespace int, enqueue func(Key), changed func(namespace string, pending, held int)) *Limiter {
	return &Limiter{limit: limit, perNamespace: perNamespace, enqueue: enqueue, changed: changed, entries: map[Key]*state{}}
}

// Observe records a version of a workload, unless a later one is known.
func (l *Limiter) Observe(key Key, e Entry) {
	l.change(key, func(s *state) *state {
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

// Remove removes a deleted workload.
func (l *Limiter) Remove(key Key) { l.change(key, func(*state) *state { return nil }) }

// SetReadiness records the result of a reconcile and the reason for the wait. It reports whether they differ from the last
// ones.
func (l *Limiter) SetReadiness(key Key, v Readiness, reason string) (changed bool) {
	l.change(key, func(s *state) *state {
		if s != nil {
			changed = s.readiness != v || s.reason != reason
			s.readiness = v
			s.reason = reason
		}
		return s
	})
	return changed
}

// Current reports whether the version is the latest known one. An older version precedes a write of the operator; the
// event of a newer one is pending.
func (l *Limiter) Current(key Key, version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.entries[key]
	return s != nil && s.Version == version
}

// Failed lists the workloads of a namespace with a failed last rollout.
func (l *Limiter) Failed(namespace string) []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed []Key
	for key, s := range l.entries {
		if s.Failed && key.Namespace == namespace {
			failed = append(failed, key)
		}
	}
	slices.SortFunc(failed, compareKeys)
	return failed
}

// Acquire reports whether a rollout of the workload, pending since then, may start. If so, it occupies a slot until
// Release, or until an observed version says otherwise. If not, the workload is enqueued when a slot is free.
func (l *Limiter) Acquire(key Key, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.entries[key]
	if s == nil {
		return false
	}
	l.update(key, s, func() {
		s.Pending = true
		s.Since = since
		s.readiness = Ready
	})
	if s.Rolling || s.reserved || slices.Contains(l.startable(), key) {
		s.reserved = true
		return true
	}
	return false
}

// Release ends a reservation by Acquire, after a successful or failed write. It does not enqueue the workload itself, which
// is reconciled again after the delay that its reconcile returned: while the cache is stale, each attempt is a conflict.
func (l *Limiter) Release(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, next := range l.affected(key, func(s *state) *state {
		if s != nil {
			s.reserved = false
		}
		return s
	}) {
		if next != key {
			l.enqueue(next)
		}
	}
}

// change changes the state of a workload and enqueues the affected workloads.
func (l *Limiter) change(key Key, f func(*state) *state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, next := range l.affected(key, f) {
		l.enqueue(next)
	}
}

// affected changes the state of a workload and returns the workloads that may start a rollout now, or that its failure no
// longer holds. The lock must be held.
func (l *Limiter) affected(key Key, f func(*state) *state) []Key {
	before := l.entries[key]
	was := before.summary()
	after := f(before)
	if after == nil {
		delete(l.entries, key)
	} else {
		l.entries[key] = after
	}
	now := after.summary()
	l.count(key, was, now)
	var all []Key
	if was.failed && !now.failed {
		for other, s := range l.entries {
			if s.readiness == Held && other.Namespace == key.Namespace {
				l.update(other, s, func() { s.readiness = Unknown }) // the one that has waited longest is rolled first
				all = append(all, other)
			}
		}
	}
	if was.busy && !now.busy || was.waiting && !now.waiting {
		all = append(all, l.startable()...)
	}
	return all
}

func (l *Limiter) update(key Key, s *state, f func()) {
	was := s.summary()
	f()
	l.count(key, was, s.summary())
}

func (l *Limiter) count(key Key, was, now summary) {
	pending, held := number(now.pending)-number(was.pending), number(now.held)-number(was.held)
	if pending != 0 || held != 0 {
		l.changed(key.Namespace, pending, held)
	}
}

// startable lists the workloads that may start a rollout now. The lock must be held.
func (l *Limiter) startable() []Key {
	free, perNamespace := l.limit, map[string]int{}
	var waiting []Key
	for key, s := range l.entries {
		switch is := s.summary(); {
		case is.busy:
			free--
			perNamespace[key.Namespace]++
		case is.waiting:
			waiting = append(waiting, key)
		}
	}
	if free <= 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b Key) int {
		x, y := l.entries[a], l.entries[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since), compareKeys(a, b))
	})
	next := make([]Key, 0, free)
	for _, key := range waiting {
		if len(next) < free && perNamespace[key.Namespace] < l.perNamespace {
			perNamespace[key.Namespace]++
			next = append(next, key)
		}
	}
	return next
}

// summary is the part of a state that affects other workloads.
type summary struct{ busy, waiting, failed, pending, held bool }

func (s *state) summary() summary {
	if s == nil {
		return summary{}
	}
	busy := s.Rolling || s.reserved
	return summary{
		busy: busy, waiting: s.Pending && !busy && s.readiness < Held, failed: s.Failed,
		pending: s.Pending, held: s.Pending && s.readiness == Held,
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
