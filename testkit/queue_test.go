package testkit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// A queue knows from the log whether an operator has anything to do. In doubt, it has.
func TestQueue(t *testing.T) {
	t.Parallel()
	request := func(log logr.Logger, name string) logr.Logger {
		return log.WithValues("controller", "widget", "name", name, "reconcileID", time.Now())
	}
	info := func(log logr.Logger, message string) { log.V(queueLevel).Info(message) }
	for name, test := range map[string]struct {
		reason string
		do     func(log logr.Logger, q *queue)
		want   bool
	}{
		"NoMessage": {"an operator without controllers is unknown", func(logr.Logger, *queue) {}, false},
		"Running": {"a reconcile may change something", func(log logr.Logger, _ *queue) {
			info(request(log, "a"), reconciled)
			info(request(log, "a"), reconciling)
		}, false},
		"Done": {"each reconcile has succeeded", func(log logr.Logger, _ *queue) {
			info(request(log, "a"), reconciling)
			info(request(log, "a"), reconciled)
		}, true},
		"OtherRuns": {"another object is being reconciled", func(log logr.Logger, _ *queue) {
			info(request(log, "b"), reconciling)
			info(request(log, "a"), reconciling)
			info(request(log, "a"), reconciled)
		}, false},
		"Failed": {"it will be retried", func(log logr.Logger, _ *queue) {
			request(log, "a").Error(errors.New("x"), reconcileError)
		}, false},
		"Requeued": {"it will be reconciled again", func(log logr.Logger, _ *queue) {
			info(request(log, "a"), reconcilesSoon)
		}, false},
		"Soon": {"it is reconciled in time", func(log logr.Logger, _ *queue) {
			info(request(log, "a"), reconcilesIn+"20s")
		}, false},
		"Late": {"it is reconciled too late", func(log logr.Logger, _ *queue) {
			info(request(log, "a"), reconcilesIn+"1h0m0s")
		}, true},
		"Nameless": {"requests cannot be told apart", func(log logr.Logger, _ *queue) {
			info(log, reconciled)
		}, false},
		"Runnable": {"a goroutine may act at any time", func(log logr.Logger, q *queue) {
			info(request(log, "a"), reconciled)
			q.see(runnable{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queue{}
			log := (&testLog{queue: q, to: func(logLine) {}}).logger()
			test.do(log, q)
			if got := q.isIdle(30 * time.Second); got != test.want {
				t.Errorf("%s: idle is %t, want %t", test.reason, got, test.want)
			}
		})
	}
}

// A reconcile that has begun and not ended makes the operator busy.
func TestReconciling(t *testing.T) {
	t.Parallel()
	q := &queue{}
	log := (&testLog{queue: q, to: func(logLine) {}}).logger().WithValues("controller", "widget")
	step := func(name, message string, want bool) {
		t.Helper()
		log.WithValues("name", name, "reconcileID", time.Now()).V(queueLevel).Info(message)
		if got := q.isReconciling(); got != want {
			t.Errorf("after %q of %s: reconciling is %t, want %t", message, name, got, want)
		}
	}
	step("a", reconciling, true)
	step("b", reconciling, true)
	step("a", reconciled, true)
	step("b", reconcilesIn+"1h0m0s", false)
	step("a", reconciling, true)
	log.WithValues("name", "a").Error(errors.New("x"), reconcileError)
	if q.isReconciling() {
		t.Error("a reconcile that failed counts as one that goes on")
	}
	step("a", reconciling, true)
	for key := range q.begun {
		q.begun[key] = time.Now().Add(-longestReconcile)
	}
	if q.isReconciling() {
		t.Error("a reconcile that may wait forever counts as one that does something")
	}
}

// runnable is a goroutine of an operator.
type runnable struct{}

func (runnable) Start(context.Context) error { return nil }
