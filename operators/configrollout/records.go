package configrollout

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
)

// records remembers what workloads said last. Who replaces a workload as a whole, as `kubectl replace` does, takes the
// operator's annotations with it, and a change that waited would be lost. To forget it, as a restart does, costs that.
// It is safe for concurrent use.
type records struct {
	mu    sync.Mutex
	known map[wave.Key]*kept
}

// kept is what is known of one workload.
type kept struct {
	uid    types.UID
	record annotation.Record
	// restored is how often the annotations were put back, the last time at last, and told whether it was told since then that
	// they are missing again.
	restored int
	last     time.Time
	told     bool
}

// Annotations that somebody takes out are put back at once the first time, and then later and later.
const (
	firstRestore = time.Minute
	lastRestore  = 6 * time.Hour
)

// observe takes note of what a version of a workload says.
func (r *records) observe(key wave.Key, o client.Object) {
	record := annotation.ReadRecord(o.GetAnnotations())
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[key]
	if k != nil && k.uid != o.GetUID() {
		delete(r.known, key)
		k = nil
	}
	if record.Observed == "" {
		return
	}
	if k == nil {
		k = &kept{uid: o.GetUID()}
		r.known[key] = k
	}
	k.record = record
}

// recall returns what the workload said when it last said something.
func (r *records) recall(o client.Object) (annotation.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[keyOf(o)]
	if k == nil || k.uid != o.GetUID() {
		return annotation.Record{}, false
	}
	return k.record, true
}

// missing reports whether the workload said something once and says nothing now.
func (r *records) missing(o client.Object) bool {
	_, known := r.recall(o)
	return known && annotation.ReadRecord(o.GetAnnotations()).Observed == ""
}

// keep is for what is to be remembered of a workload whose annotations are missing. It reports how long they are not to be
// put back, and whether that is news. Zero means that they may be now; else the record is kept here meanwhile.
func (r *records) keep(o client.Object, record annotation.Record) (rest time.Duration, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[keyOf(o)]
	if k == nil || k.restored == 0 {
		return 0, false
	}
	if rest = min(firstRestore<<min(k.restored-1, 16), lastRestore) - time.Since(k.last); rest <= 0 {
		return 0, false
	}
	news = !k.told
	k.record, k.told = record, true
	return rest, news
}

// restored takes note that the annotations were put back.
func (r *records) restored(key wave.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[key]
	if k == nil {
		return
	}
	if time.Since(k.last) > lastRestore {
		k.restored = 0
	}
	k.restored, k.last, k.told = k.restored+1, time.Now(), false
}

func (r *records) forget(key wave.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}
