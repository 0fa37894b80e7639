// Package status computes the conditions of a custom resource and the events of a reconcile from its outcome.
//
// It changes objects in memory only. Package reconciler stores the status and sends the events; package planner shows them.
package status

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Condition types that are present only while they apply.
const (
	ConditionPaused    = "Paused"
	ConditionDryRun    = "DryRun"
	ConditionContended = "Contended"
)

// reasonProgressing is the reason of an object whose children are not ready yet, without a failure.
const reasonProgressing = "Progressing"

// keepReadyFailures is the number of consecutive transient failures that leave a ready object ready.
const keepReadyFailures = 3

// Summarize writes the conditions and calls the operator's Summarize.
func Summarize(ctx context.Context, op *desired.Definition, p *desired.Pass, err error, failures int) {
	summarize(p, err, failures)
	if op.Summarize == nil {
		return
	}
	if bug := recoverPanic(ctx, func() { op.Summarize(p.Object) }); bug != nil {
		summarize(p, errors.Join(err, bug), failures)
	}
}

// recoverPanic calls f and returns its panic as an error.
func recoverPanic(ctx context.Context, f func()) (err error) {
	defer retry.RecoverPanic(ctx, &err)
	f()
	return nil
}

// summarize writes Ready, Reconciling and Stalled for the result of a reconcile. It is the error table: one row per class.
func summarize(p *desired.Pass, err error, failures int) {
	o := p.Object
	conditions.Remove(o, ConditionPaused)
	conditions.Remove(o, ConditionDryRun)
	conditions.Remove(o, ConditionContended)
	class, cause := retry.Classify(err), retry.MostSevere(err)
	switch class {
	case retry.ClassNone:
		summarizePlan(p)
	case retry.ClassStale, retry.ClassOutdated:
		// The read state was outdated. The next reconcile follows at once and writes the conditions.
	case retry.ClassInvalid, retry.ClassRejected, retry.ClassConflict:
		conditions.MarkStalled(o, cause.Reason, cause.Message)
	case retry.ClassContended:
		conditions.Set(o, ConditionContended, metav1.ConditionTrue, "RevertedByOthers", cause.Message)
		conditions.MarkReconciling(o, cause.Reason, cause.Message)
	case retry.ClassWait:
		conditions.MarkReconciling(o, cause.Reason, cause.Message)
	case retry.ClassPanic:
		conditions.MarkReconciling(o, cause.Reason, retry.Describe(err))
	case retry.ClassTransient:
		if failures < keepReadyFailures {
			conditions.MarkRetrying(o, "Retrying", retry.Describe(err))
			return
		}
		conditions.MarkReconciling(o, "Retrying", retry.Describe(err))
	}
}

// summarizePlan writes the conditions for a plan that was carried out: ready if every child is ready and the operator
// agrees.
func summarizePlan(p *desired.Pass) {
	var missing []string
	reason := reasonProgressing
	for _, s := range p.Plan {
		if s.IsReady {
			continue
		}
		if s.Failed {
			reason = "ChildFailed"
		}
		missing = append(missing, s.NotReadyMessage)
	}
	switch {
	case p.Override != nil && p.IsSuspended:
		conditions.MarkSuspended(p.Object, p.Override.Reason, p.Override.Message)
	case p.Override != nil:
		conditions.MarkReconciling(p.Object, p.Override.Reason, p.Override.Message)
	case len(missing) > 0:
		conditions.MarkReconciling(p.Object, reason, retry.JoinMessages(missing))
	default:
		conditions.MarkReady(p.Object, "")
	}
}
