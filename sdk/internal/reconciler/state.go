package reconciler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// objectState is the state that the reconciler keeps of one object between reconciles. Losing it on restart only resets
// backoff.
type objectState struct {
	uid              types.UID
	generation       int64
	failures         int // consecutive transient failures
	staleReads       staleReads
	notBefore        time.Time  // no reconcile before then, unless the object itself changes
	version          string     // resourceVersion at the last failure
	idle             *idleState // nil if there is work to do
	retries          retry.Tracker
	readinessCache   desired.ReadinessCache // of children
	afterStatus      error                  // of the last reconcile, after it had stored the status
	previouslyFailed map[object.ID]bool     // children with a transient failure in the last reconcile
	external         desired.ExternalMemory
}

func (e *Reconciler) objectState(key types.NamespacedName, o desired.Object) *objectState {
	e.mu.Lock()
	defer e.mu.Unlock()
	st, ok := e.states[key]
	if !ok || st.uid != o.GetUID() {
		st = &objectState{
			uid: o.GetUID(), retries: retry.Tracker{}, readinessCache: desired.ReadinessCache{},
			previouslyFailed: map[object.ID]bool{}, external: desired.ExternalMemory{},
		}
		e.states[key] = st
	}
	if st.generation != o.GetGeneration() {
		st.generation = o.GetGeneration()
		st.failures = 0
		st.notBefore = time.Time{}
	}
	return st
}

// idleState is the result of a reconcile that had nothing to write. No work is needed until the fingerprint changes or the
// time is reached.
type idleState struct {
	fingerprint observed.Fingerprint
	until       time.Time // zero if only an event ends it
}

// stillIdle reports whether no work is needed yet, and for how long; zero means until the next event.
func (s *idleState) stillIdle(now observed.Fingerprint) (time.Duration, bool) {
	if s == nil || s.fingerprint != now {
		return 0, false
	}
	if s.until.IsZero() {
		return 0, true
	}
	left := time.Until(s.until)
	return left, left > 0
}
