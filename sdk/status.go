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

// Condition types that are present only while they apply.
const (
	conditionPaused    = "Paused"
	conditionDryRun    = "DryRun"
	conditionContended = "Contended"
)

// keepReadyFailures is the number of consecutive transient failures that leave a ready object ready.
const keepReadyFailures = 3

// readyOverride replaces the reason and message of Ready.
type readyOverride struct{ reason, message string }

// worstChildError returns the most severe failure of a single child.
func worstChildError(plan []*plannedChild) error {
	all := make([]error, len(plan))
	for i, s := range plan {
		all[i] = s.err
	}
	if p := mostSevere(errors.Join(all...)); p != nil {
		return p
	}
	return nil
}

// summarize writes the conditions and calls the operator's Summarize.
func (op *Operator[T]) summarize(ctx context.Context, p *Pass[T], err error, failures int) {
	summarize(p, err, failures)
	if op.Summarize == nil {
		return
	}
	if bug := recovered(ctx, func() { op.Summarize(p.Object) }); bug != nil {
		summarize(p, errors.Join(err, bug), failures)
	}
}

// recovered calls f and returns its panic as an error.
func recovered(ctx context.Context, f func()) (err error) {
	defer recoverPanic(ctx, &err)
	f()
	return nil
}

// summarize writes Ready, Reconciling and Stalled for the result of a reconcile. It is the error table: one row per class.
func summarize[T Object](p *Pass[T], err error, failures int) {
	o := p.Object
	conditions.Remove(o, conditionPaused)
	conditions.Remove(o, conditionDryRun)
	conditions.Remove(o, conditionContended)
	class, cause := classify(err), mostSevere(err)
	switch class {
	case classNone:
		summarizePlan(p)
	case classStale, classOutdated:
		// The read state was outdated. The next reconcile follows at once and writes the conditions.
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
		if failures < keepReadyFailures {
			conditions.MarkRetrying(o, "Retrying", describe(err))
			return
		}
		conditions.MarkReconciling(o, "Retrying", describe(err))
	}
}

// summarizePlan writes the conditions for a plan that was carried out: ready if every child is ready and the operator
// agrees.
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
	case p.override != nil && p.suspended:
		conditions.MarkSuspended(p.Object, p.override.reason, p.override.message)
	case p.override != nil:
		conditions.MarkReconciling(p.Object, p.override.reason, p.override.message)
	case len(missing) > 0:
		conditions.MarkReconciling(p.Object, reason, joinMessages(missing))
	default:
		conditions.MarkReady(p.Object, "")
	}
}

// joinMessages joins the first few messages and counts the others, so that a large plan has a short and stable message.
func joinMessages(messages []string) string {
	const shown = 3
	slices.Sort(messages)
	if len(messages) <= shown {
		return strings.Join(messages, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(messages[:shown], "; "), len(messages)-shown)
}

// writeStatus stores the status if it differs from the stored one, and then sends the events. The request carries the
// resourceVersion that was read (optimistic concurrency): a status computed from one version is never written to another.
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
	e.cache.recordWrite(e.cache.primary, "", stored)
	p.Object = object.Copy(stored)
	for _, f := range p.onStatusUpdated {
		f()
	}
	e.sendEvents(from, p)
	return true, nil
}

// keepTransitionTimes restores the transition time of each condition with an unchanged status. A temporary value during the
// reconcile, such as Ready before Summarize replaced it, is no transition.
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

// sendEvents sends the events of a reconcile after its status was stored: the recorded ones, and the transitions of the
// conditions. A reconcile without a change sends none.
func (e *engine[T]) sendEvents(from T, p *Pass[T]) {
	for _, ev := range mergeEvents(append(transitionEvents(from, p.Object), p.events...)) {
		note := ev.message[:min(len(ev.message), maxNote)]
		e.recorder.Eventf(p.Object, nil, ev.kind, ev.reason, "Reconcile", "%s", strings.ToValidUTF8(note, ""))
	}
}

// mergeEvents merges events with equal reasons: client-go keeps the first of such events for one version of an object and
// only counts the others.
func mergeEvents(events []event) []event {
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

// maxNote is the maximum length of an event's note in the API server, in bytes.
const maxNote = 1024

func transitionEvents(from, to Object) []event {
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

// waitAfter returns the retry time that the failure itself requests; zero means none.
func waitAfter(err error) time.Duration {
	if p := mostSevere(err); p != nil {
		return p.after
	}
	return 0
}
