package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// The condition types that appear only while they apply.
const (
	conditionPaused    = "Paused"
	conditionDryRun    = "DryRun"
	conditionContended = "Contended"
)

// holdReady is how many transient failures in a row leave a ready object ready.
const holdReady = 3

// verdict is a reason and a message for the summary.
type verdict struct{ reason, message string }

// worst returns the gravest failure that concerns a single child.
func worst(plan []*step) error {
	all := make([]error, len(plan))
	for i, s := range plan {
		all[i] = s.err
	}
	if p := gravest(errors.Join(all...)); p != nil {
		return p
	}
	return nil
}

// summarize writes the summary, and lets the operator write what follows from it.
func (op *Operator[T]) summarize(ctx context.Context, p *Pass[T], err error, failures int) {
	summarize(p, err, failures)
	if op.Summarize == nil {
		return
	}
	if bug := recovered(ctx, func() { op.Summarize(p.Object) }); bug != nil {
		summarize(p, errors.Join(err, bug), failures)
	}
}

// recovered calls f and returns its panic.
func recovered(ctx context.Context, f func()) (err error) {
	defer recoverPanic(ctx, &err)
	f()
	return nil
}

// summarize writes Ready, Reconciling and Stalled from the outcome of a pass. This is the error table: one row a class.
func summarize[T Object](p *Pass[T], err error, failures int) {
	o := p.Object
	conditions.Remove(o, conditionPaused)
	conditions.Remove(o, conditionDryRun)
	conditions.Remove(o, conditionContended)
	class, cause := classify(err), gravest(err)
	switch class {
	case classNone:
		summarizePlan(p)
	case classStale, classOutdated:
		// We looked at an old state. The next pass, which follows at once, has something to say.
	case classInvalid, classRejected, classConflict:
		conditions.MarkStalled(o, cause.reason, cause.message)
	case classContended:
		conditions.Set(o, conditionContended, metav1.ConditionTrue, "RevertedByOthers", cause.message)
		conditions.MarkReconciling(o, cause.reason, cause.message)
	case classWait:
		conditions.MarkReconciling(o, cause.reason, cause.message)
	case classPanic:
		conditions.MarkReconciling(o, cause.reason, describe(err))
	case classTransient:
		if failures < holdReady {
			conditions.MarkRetrying(o, "Retrying", describe(err))
			return
		}
		conditions.MarkReconciling(o, "Retrying", describe(err))
	}
}

// summarizePlan computes the summary of a plan that was carried out: ready if every child is and the operator agrees.
func summarizePlan[T Object](p *Pass[T]) {
	var missing []string
	reason := "Progressing"
	for _, s := range p.plan {
		if s.isReady {
			continue
		}
		if s.failed {
			reason = "ChildFailed"
		}
		missing = append(missing, s.waits)
	}
	switch {
	case p.unready != nil && p.idle:
		conditions.MarkSuspended(p.Object, p.unready.reason, p.unready.message)
	case p.unready != nil:
		conditions.MarkReconciling(p.Object, p.unready.reason, p.unready.message)
	case len(missing) > 0:
		conditions.MarkReconciling(p.Object, reason, list(missing))
	default:
		conditions.MarkReady(p.Object, "")
	}
}

// list joins the first few messages and counts the others, so that a large plan has a short and stable message.
func list(messages []string) string {
	const shown = 3
	slices.Sort(messages)
	if len(messages) <= shown {
		return strings.Join(messages, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(messages[:shown], "; "), len(messages)-shown)
}

// writeStatus stores the status of the pass if it differs from the stored one, and then sends the events. The request
// carries the resourceVersion that the pass looked at: a status is never computed from one state and written to
// another.
func (e *engine[T]) writeStatus(ctx context.Context, from T, p *Pass[T]) (bool, error) {
	keepTransitionTimes(from, p.Object)
	before, after := object.Status(from), object.Status(p.Object)
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	body, err := statusPatch(p.Object, before, after)
	if err != nil {
		return false, err
	}
	stored := object.Empty(p.Object)
	stored.SetNamespace(p.Object.GetNamespace())
	stored.SetName(p.Object.GetName())
	if err := e.client.Status().Patch(ctx, stored, client.RawPatch(types.MergePatchType, body)); err != nil {
		return false, fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(from), outdated(err))
	}
	e.view.wrote(e.view.primary, "", stored)
	p.Object = object.Copy(stored)
	for _, f := range p.onStored {
		f()
	}
	e.announce(from, p)
	return true, nil
}

// keepTransitionTimes gives each condition whose status is the stored one the time that is stored: what a pass said on the
// way to its result, such as Ready before the operator's own summary withdrew it, is no transition.
func keepTransitionTimes[T Object](from, to T) {
	all := to.CommonStatus().Conditions
	for i := range all {
		if was := conditions.Get(from, all[i].Type); was != nil && was.Status == all[i].Status {
			all[i].LastTransitionTime = was.LastTransitionTime
		}
	}
}

func statusPatch(o client.Object, before, after any) ([]byte, error) {
	from, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	diff, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing the status: %w", err)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID()},
		"status":   json.RawMessage(diff),
	})
}

// announce sends the events of a pass whose status was stored: those the operator recorded, and the transitions of the
// summary. Nothing is sent for a pass that changed nothing.
func (e *engine[T]) announce(from T, p *Pass[T]) {
	for _, ev := range joined(append(transitions(from, p.Object), p.events...)) {
		note := ev.message[:min(len(ev.message), maxNote)]
		e.recorder.Eventf(p.Object, nil, ev.kind, ev.reason, "Reconcile", "%s", strings.ToValidUTF8(note, ""))
	}
}

// joined makes one of the events that have one reason: of those about one version of an object, client-go keeps the first
// and counts the others.
func joined(events []event) []event {
	var all []event
	for _, ev := range events {
		i := slices.IndexFunc(all, func(other event) bool { return other.kind == ev.kind && other.reason == ev.reason })
		switch {
		case i < 0:
			all = append(all, ev)
		case !slices.Contains(strings.Split(all[i].message, "; "), ev.message):
			all[i].message += "; " + ev.message
		}
	}
	return all
}

// maxNote is what the API server accepts as the note of an event, in bytes.
const maxNote = 1024

func transitions(from, to Object) []event {
	var all []event
	ready, stalled := conditions.Get(to, conditions.Ready), conditions.Get(to, conditions.Stalled)
	was := conditions.Get(from, conditions.Ready)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue && (was == nil || was.Status != metav1.ConditionTrue):
		all = append(all, event{corev1.EventTypeNormal, "Ready", "the object is ready"})
	case ready.Status == metav1.ConditionFalse && was != nil && was.Status == metav1.ConditionTrue:
		all = append(all, event{corev1.EventTypeWarning, ready.Reason, ready.Message})
	}
	wasStalled := conditions.Get(from, conditions.Stalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue &&
		(wasStalled == nil || wasStalled.Status != metav1.ConditionTrue || wasStalled.Reason != stalled.Reason) &&
		(was == nil || was.Status != metav1.ConditionTrue) {
		all = append(all, event{corev1.EventTypeWarning, stalled.Reason, stalled.Message})
	}
	return all
}

// waitAfter is when the failure itself asks to be looked at again; zero leaves it to others.
func waitAfter(err error) time.Duration {
	if p := gravest(err); p != nil {
		return p.after
	}
	return 0
}
