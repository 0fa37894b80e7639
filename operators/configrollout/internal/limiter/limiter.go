// Package limiter limits the concurrent rollouts. Its input is the state in the workloads' annotations, so that a new
// process has the same knowledge as the previous one.
//
// Users may write these annotations. The limiter therefore shares the slots by namespace: a namespace takes a limited number
// of slots from the others, for a limited time, and the namespaces take turns. Nothing that is written in one namespace
// changes that.
package limiter

import (
	"cmp"
	"maps"
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
	// Rolling means that a rollout by the operator is in progress, since Started.
	Rolling bool
	Started time.Time
	// Failed means that the last one failed and holds other workloads.
	Failed bool
	// Pending means that a rollout has been pending since Since. Of one namespace, a greater Priority is rolled first.
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

// Options configure a limiter.
type Options struct {
	// Limit is the maximal number of concurrent rollouts in all, and PerNamespace that in one namespace.
	Limit, PerNamespace int
	// MaxTime is the time after which a rollout takes no slot from other namespaces. It still takes one of its own namespace.
	MaxTime time.Duration
	// Enqueue is called for a workload that should be reconciled. It must not call the limiter.
	Enqueue func(Key)
	// Changed is called with the differences of the numbers of pending and held workloads. It must not call the limiter.
	Changed func(namespace string, pending, held int)
	// Now returns the present time.
	Now func() time.Time
}

// Limiter limits the concurrent rollouts. It is safe for concurrent use.
type Limiter struct {
	options Options

	mu         sync.Mutex
	entries    map[Key]*state
	namespaces map[string]*namespace
	turns      uint64 // the last turn
}

type state struct {
	Entry

	readiness Readiness
	reason    string // why the rollout waits
	reserved  bool   // a rollout is about to be written
	busySince time.Time
}

// namespace is the share of one namespace.
type namespace struct {
	entries, pending, busy int
	// turn is smaller for a namespace whose turn comes earlier. A namespace gets one when its first rollout becomes pending,
	// and a new one with each slot.
	turn uint64
}

// New returns a limiter.
func New(o Options) *Limiter {
	return &Limiter{options: o, entries: map[Key]*state{}, namespaces: map[string]*namespace{}}
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
		l.update(key, s, func() { s.reserved = true })
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
			l.options.Enqueue(next)
		}
	}
}

// change changes the state of a workload and enqueues the affected workloads.
func (l *Limiter) change(key Key, f func(*state) *state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, next := range l.affected(key, f) {
		l.options.Enqueue(next)
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
	l.count(key, after, was, now)
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
	l.count(key, s, was, s.summary())
}

// count updates the share of the namespace after a change of one workload.
func (l *Limiter) count(key Key, s *state, was, now summary) {
	n := l.namespaces[key.Namespace]
	if n == nil {
		n = &namespace{}
		l.namespaces[key.Namespace] = n
	}
	n.entries += number(now.known) - number(was.known)
	n.busy += number(now.busy) - number(was.busy)
	pending, held := number(now.pending)-number(was.pending), number(now.held)-number(was.held)
	n.pending += pending
	if now.busy && !was.busy || pending > 0 && n.pending == 1 {
		l.turns++
		n.turn = l.turns
	}
	if now.busy && !was.busy {
		s.busySince = l.options.Now()
	}
	if now.busy && !s.Started.IsZero() && s.Started.Before(s.busySince) { // of an earlier process
		s.busySince = s.Started
	}
	if n.entries == 0 {
		delete(l.namespaces, key.Namespace)
	}
	if pending != 0 || held != 0 {
		l.options.Changed(key.Namespace, pending, held)
	}
}

// UntilFree returns the time until a rollout reaches the maximal time, and so frees a slot for other namespaces; zero if
// none will.
func (l *Limiter) UntilFree() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Now()
	var first time.Duration
	for _, s := range l.entries {
		rest := s.busySince.Add(l.options.MaxTime).Sub(now)
		if s.summary().busy && rest > 0 && (first == 0 || rest < first) {
			first = rest
		}
	}
	return first
}

// startable lists the workloads that may start a rollout now. The lock must be held.
func (l *Limiter) startable() []Key {
	free, waiting := l.free(), map[string][]Key{}
	if free <= 0 {
		return nil
	}
	for key, s := range l.entries {
		if s.summary().waiting && l.namespaces[key.Namespace].busy < l.options.PerNamespace {
			waiting[key.Namespace] = append(waiting[key.Namespace], key)
		}
	}
	for _, keys := range waiting {
		slices.SortFunc(keys, func(a, b Key) int {
			x, y := l.entries[a], l.entries[b]
			return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since), compareKeys(a, b))
		})
	}
	var next []Key
	taken := map[string]int{}
	for len(next) < free && len(waiting) > 0 {
		name := l.nextNamespace(waiting, taken)
		next = append(next, waiting[name][0])
		taken[name]++
		waiting[name] = waiting[name][1:]
		if len(waiting[name]) == 0 || l.namespaces[name].busy+taken[name] >= l.options.PerNamespace {
			delete(waiting, name)
		}
	}
	return next
}

// free returns the number of free slots. A namespace takes at most its share, also with forged annotations.
func (l *Limiter) free() int {
	now := l.options.Now()
	free, taken := l.options.Limit, map[string]int{}
	for key, s := range l.entries {
		if !s.summary().busy || now.Sub(s.busySince) >= l.options.MaxTime {
			continue
		}
		if taken[key.Namespace]++; taken[key.Namespace] <= l.options.PerNamespace {
			free--
		}
	}
	return free
}

// nextNamespace returns the namespace that gets the next slot: of those with the fewest slots, the one whose turn comes
// first.
func (l *Limiter) nextNamespace(waiting map[string][]Key, taken map[string]int) string {
	return slices.MinFunc(slices.Collect(maps.Keys(waiting)), func(a, b string) int {
		x, y := l.namespaces[a], l.namespaces[b]
		return cmp.Or(cmp.Compare(x.busy+taken[a], y.busy+taken[b]), cmp.Compare(x.turn, y.turn))
	})
}

// summary is the part of a state that affects other workloads.
type summary struct{ known, busy, waiting, failed, pending, held bool }

func (s *state) summary() summary {
	if s == nil {
		return summary{}
	}
	busy := s.Rolling || s.reserved
	return summary{
		known: true, busy: busy, waiting: s.Pending && !busy && s.readiness < Held, failed: s.Failed,
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
