package configrollout

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
)

// stateFallback keeps the last record of each workload in memory. `kubectl replace` removes the operator's annotations,
// and a pending change would be lost with them. A restart loses the records in memory. It is safe for concurrent use.
type stateFallback struct {
	mu    sync.Mutex
	known map[limiter.Key]*savedState
}

// savedState is the state of one workload.
type savedState struct {
	uid    types.UID
	record annotation.Record
	// restored counts how often the annotations were restored, and last is the time of the last restore. reported means
	// that their removal after that was reported.
	restored int
	last     time.Time
	reported bool
}

// Annotations that another manager removes are restored at once the first time, and then with a growing backoff.
const (
	initialRestoreBackoff = time.Minute
	maxRestoreBackoff     = 6 * time.Hour
)

// observe saves the record of a version of a workload.
func (f *stateFallback) observe(key limiter.Key, o client.Object) {
	record := annotation.ReadRecord(o.GetAnnotations())
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known[key]
	if k != nil && k.uid != o.GetUID() {
		delete(f.known, key)
		k = nil
	}
	if record.Observed == "" {
		return
	}
	if k == nil {
		k = &savedState{uid: o.GetUID()}
		f.known[key] = k
	}
	k.record = record
}

// recall returns the last record of the workload.
func (f *stateFallback) recall(o client.Object) (annotation.Record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known[keyOf(o)]
	if k == nil || k.uid != o.GetUID() {
		return annotation.Record{}, false
	}
	return k.record, true
}

// missing reports whether the workload had a record and has none now.
func (f *stateFallback) missing(o client.Object) bool {
	_, known := f.recall(o)
	return known && annotation.ReadRecord(o.GetAnnotations()).Observed == ""
}

// hold handles a new record of a workload without annotations. rest is the time until they may be restored; the record is
// kept here until then, and firstTime means that the removal is not reported yet. Zero means that the annotations may be
// restored now.
func (f *stateFallback) hold(o client.Object, record annotation.Record) (rest time.Duration, firstTime bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known[keyOf(o)]
	if k == nil || k.restored == 0 {
		return 0, false
	}
	if rest = min(initialRestoreBackoff<<min(k.restored-1, 16), maxRestoreBackoff) - time.Since(k.last); rest <= 0 {
		return 0, false
	}
	firstTime = !k.reported
	k.record = record
	k.reported = true
	return rest, firstTime
}

// markRestored counts a restore of the annotations.
func (f *stateFallback) markRestored(key limiter.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known[key]
	if k == nil {
		return
	}
	if time.Since(k.last) > maxRestoreBackoff {
		k.restored = 0
	}
	k.restored++
	k.last = time.Now()
	k.reported = false
}

func (f *stateFallback) forget(key limiter.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, key)
}
