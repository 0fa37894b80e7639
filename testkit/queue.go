package testkit

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// queue follows the reconciles of an operator by the debug messages of controller-runtime. It is safe for concurrent use.
type queue struct {
	mu     sync.Mutex
	seen   bool                 // there was a message
	opaque bool                 // the messages do not tell everything
	next   map[string]time.Time // of each object with a further reconcile; the zero time if the time is unknown
	begun  map[string]time.Time // of each reconcile that has not ended
}

// queueLevel is the level of the messages about a reconcile.
const queueLevel = 5

// The messages of controller-runtime about a reconcile.
const (
	reconciling    = "Reconciling"
	reconciled     = "Reconcile successful"
	reconcilesSoon = "Reconcile done, requeueing"
	reconcilesIn   = "Reconcile done, requeueing after "
	reconcileError = "Reconciler error"
)

// observe evaluates a message of the log with its values.
func (q *queue) observe(message string, values []any) {
	if !strings.HasPrefix(message, "Reconcil") {
		return
	}
	var key strings.Builder
	named := false
	for i := 0; i+1 < len(values); i += 2 {
		if name := fmt.Sprint(values[i]); name != "reconcileID" {
			fmt.Fprintf(&key, "%s=%v ", name, values[i+1])
			named = named || name == "name"
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if message == reconciling {
		q.begin(key.String())
	} else {
		delete(q.begun, key.String())
	}
	switch after, isIn := strings.CutPrefix(message, reconcilesIn); {
	case message == reconciling, message == reconcilesSoon, message == reconcileError:
		q.plan(key.String(), time.Time{})
	case message == reconciled:
		delete(q.next, key.String())
	case isIn:
		d, err := time.ParseDuration(after)
		if err != nil {
			q.opaque = true
		}
		q.plan(key.String(), time.Now().Add(d))
	default:
		return
	}
	q.seen = true
	q.opaque = q.opaque || !named
}

func (q *queue) plan(key string, at time.Time) {
	if q.next == nil {
		q.next = map[string]time.Time{}
	}
	q.next[key] = at
}

func (q *queue) begin(key string) {
	if q.begun == nil {
		q.begun = map[string]time.Time{}
	}
	q.begun[key] = time.Now()
}

// longestReconcile is the time after which a reconcile that has not ended no longer counts as one that may do something: it
// may wait forever.
const longestReconcile = 10 * time.Second

// isReconciling reports whether a reconcile is known to have begun, and not to have ended.
func (q *queue) isReconciling() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, at := range q.begun {
		if time.Since(at) < longestReconcile {
			return true
		}
	}
	return false
}

// isIdle reports whether it is known that there will be no reconcile for this time, unless there is an event.
func (q *queue) isIdle(within time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.seen || q.opaque {
		return false
	}
	for _, at := range q.next {
		if at.IsZero() || time.Until(at) < within {
			return false
		}
	}
	return true
}

// observedManager observes which runnables the operator adds: one that is neither a controller nor a cache may act at any
// time.
type observedManager struct {
	manager.Manager

	queue *queue
}

// Add implements manager.Manager.
func (m observedManager) Add(r manager.Runnable) error {
	m.queue.see(r)
	return m.Manager.Add(r)
}

// see evaluates a runnable of the manager.
func (q *queue) see(r manager.Runnable) {
	_, isController := r.(interface{ GetLogger() logr.Logger })
	_, isCache := r.(client.FieldIndexer)
	if isController || isCache {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opaque = true
}

// IsIdleFor reports whether it is known that the operator reconciles nothing for this time unless it receives an event: each
// reconcile has succeeded, and none is due. It is false for an operator without controllers, one with a goroutine of its own
// (manager.Runnable), and one with a logger of its own. It is safe for concurrent use.
func (op *Instance) IsIdleFor(d time.Duration) bool { return op.queue.isIdle(d) }

// IsReconciling reports whether a reconcile is known to have begun within the last 10 s, and not to have ended. It is false
// for an operator with a logger of its own. It is safe for concurrent use.
func (op *Instance) IsReconciling() bool { return op.queue.isReconciling() }
