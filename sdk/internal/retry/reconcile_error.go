// Package retry classifies the failures of a reconcile and decides when they are retried.
//
// Its error table has one row per class of failure: the class selects the conditions, the delay and the metric. A [Tracker]
// holds the retry state of the children of one object: rejections by the API server, and contention with another field
// manager. The package makes no requests and does not write conditions: packages reconciler and status do.
package retry

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ReconcileError is a failure with a known row in the error table, and its entry in the conditions.
type ReconcileError struct {
	Class           Class
	Reason, Message string
	After           time.Duration // time until the next attempt without an event; zero leaves it to events and the resync
	Forbidden       bool          // the client lacks a permission or quota; the content may be valid
}

// Error returns the message, preceded by the reason if the operator's author chose it.
func (p *ReconcileError) Error() string {
	if p.Class == ClassWait || p.Class == ClassInvalid {
		return p.Reason + ": " + p.Message
	}
	return p.Message
}

// Wait returns an error for Reconcile and Finalize: an external condition must be met first. The object becomes
// Reconciling=True with the reason, a CamelCase word, and the message, a sentence. It does not count as a failure.
func Wait(reason, format string, args ...any) error { return WaitFor(0, reason, format, args...) }

// WaitFor is [Wait] with a time after which the object is reconciled again in any case.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	return &ReconcileError{Class: ClassWait, Reason: reason, Message: fmt.Sprintf(format, args...), After: after}
}

// Invalid returns an error for Reconcile and Finalize: the spec cannot be realized. The object becomes Stalled=True with the
// reason, a CamelCase word, and the message, a sentence that names the fix. It is not retried before the object or one of
// its references changes.
func Invalid(reason, format string, args ...any) error {
	return &ReconcileError{Class: ClassInvalid, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reason returns the reason of an error of [Wait], [WaitFor] or [Invalid], or of a function that returns such an error, such
// as [Ref]. It returns "" for other errors.
func Reason(err error) string {
	if p := MostSevere(err); p != nil && (p.Class == ClassWait || p.Class == ClassInvalid) {
		return p.Reason
	}
	return ""
}

// NewPanicError returns the problem for a panic of the operator's code.
func NewPanicError(x any) error {
	return &ReconcileError{Class: ClassPanic, Reason: "Panic", Message: fmt.Sprintf("panic: %v", x)}
}

// RecoverPanic turns a panic of the operator's code into an error. It must be deferred.
func RecoverPanic(ctx context.Context, err *error) {
	if x := recover(); x != nil {
		*err = NewPanicError(x)
		log.FromContext(ctx).Error(*err, "The operator panicked", "stack", string(debug.Stack()))
	}
}

// Within returns a copy of the error that requests a retry after this time.
func (p *ReconcileError) Within(left time.Duration) error {
	remaining := *p
	remaining.After = left
	return &remaining
}

// RequestedDelay returns the retry time that the failure itself requests; zero means none.
func RequestedDelay(err error) time.Duration {
	if p := MostSevere(err); p != nil {
		return p.After
	}
	return 0
}
