package configrollout

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/decision"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// reconciler carries out what is decided about one workload after the other.
type reconciler struct {
	observer

	writer   client.Writer
	metadata client.Reader // of ConfigMaps and Secrets
	recorder events.EventRecorder
	wave     *wave.Wave
	renewals *renewals
	records  *records
}

// retry is when to look again after somebody else was faster.
const retry = 200 * time.Millisecond

// Reconcile looks at one workload, decides, and writes what was decided in one request.
func (r *reconciler) Reconcile(ctx context.Context, key wave.Key) (reconcile.Result, error) {
	o, err := r.get(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if o.GetUID() == "" {
		r.wave.Forget(key)
		r.renewals.forget(key)
		r.records.forget(key)
		return reconcile.Result{}, nil
	}
	if !r.wave.Current(key, o.GetResourceVersion()) || o.GetDeletionTimestamp() != nil { // news come, or the end
		return reconcile.Result{}, nil
	}
	d, err := r.decide(context.WithoutCancel(ctx), key, o)
	if err != nil {
		r.wave.Judge(key, wave.Blocked)
		return reconcile.Result{}, err
	}
	after, err := r.carryOut(context.WithoutCancel(ctx), key, o, d)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: retry}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// decide looks again, harder, before anything is written. If it decides to roll, the rollout counts as under way.
func (r *reconciler) decide(ctx context.Context, key wave.Key, o client.Object) (decision.Decision, error) {
	seen, err := r.observe(ctx, o, digest.All, time.Now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return decision.Decision{}, err
	}
	d := decision.Decide(seen)
	if patchOf(o, d) == nil {
		return d, nil
	}
	trust := digest.Present
	if d.Action == decision.Baseline || d.Action == decision.Merge {
		trust = digest.Nothing
	}
	if seen, err = r.observe(ctx, o, trust, seen.Now); err != nil {
		return decision.Decision{}, err
	}
	if d = decision.Decide(seen); d.Action == decision.Roll && !r.wave.Acquire(key, d.Since) {
		seen.Slot = false
		d = decision.Decide(seen)
	}
	return d, nil
}

// carryOut writes what was decided, tells of it, and returns after what time to look again.
func (r *reconciler) carryOut(
	ctx context.Context, key wave.Key, o client.Object, d decision.Decision,
) (after time.Duration, err error) {
	if r.wave.Judge(key, verdictOf(d)) && d.Because != "" {
		skipped.WithLabelValues(key.Namespace, d.Because).Inc()
	}
	defer r.wave.Release(key)
	if d.Action == decision.Release {
		r.records.forget(key)
	}
	patch := patchOf(o, d)
	if patch == nil {
		return d.After, nil
	}
	missing := r.records.missing(o)
	if missing && d.Template == workload.Digest(o) {
		if rest := r.withhold(ctx, key, o, d); rest > 0 {
			return rest, nil
		}
	}
	before := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy is of the same type.
	if err := r.writer.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name)); err != nil {
		r.refused(key, before, err)
		return 0, fmt.Errorf("writing what was decided about %s: %w", key, err)
	}
	if missing {
		r.records.restored(key)
	}
	r.records.observe(key, o)
	r.wave.Observe(key, r.entryOf(o))
	countDecision(key.Namespace, d)
	r.tell(ctx, before, d)
	return d.After, nil
}

// withhold keeps what is to be remembered in memory alone as long as somebody keeps taking it out of the annotations, and
// returns for how long; zero if it is to be written.
func (r *reconciler) withhold(ctx context.Context, key wave.Key, o client.Object, d decision.Decision) time.Duration {
	rest, news := r.records.keep(o, d.Record)
	if rest == 0 {
		return 0
	}
	r.wave.Observe(key, r.entryOf(o))
	countDecision(key.Namespace, d)
	r.tell(ctx, o, d)
	if news {
		r.event(o, true, "AnnotationsRemoved", "something else keeps taking what is remembered out of the annotations: "+
			"let it leave "+annotation.Prefix+"* alone, except for what it sets itself")
	}
	if d.After > 0 && d.After < rest {
		return d.After
	}
	return rest
}

// refused takes note that a write failed: until it is tried again, others go first, unless somebody else was merely faster.
// What the API server or a policy does not allow is told, because it cannot be in the workload's state.
func (r *reconciler) refused(key wave.Key, o client.Object, err error) {
	if apierrors.IsConflict(err) {
		return
	}
	r.wave.Judge(key, wave.Blocked)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		r.event(o, true, "WriteRefused", "the API server refuses what the operator writes to it: "+err.Error())
	}
}

func verdictOf(d decision.Decision) wave.Verdict {
	switch {
	case d.Ready:
		return wave.Ready
	case d.Because == decision.RolloutHeld:
		return wave.Held
	case d.Because != "":
		return wave.Blocked
	default:
		return wave.Unknown
	}
}

// patchOf is the request that makes the workload what was decided, nil if it is so already. It is refused if the workload
// is not the one that was looked at any more. It is no server-side apply because that could not take back what `kubectl
// rollout undo` has put into the annotations.
func patchOf(o client.Object, d decision.Decision) []byte {
	metadata := map[string]any{}
	patch := map[string]any{"metadata": metadata}
	changes := d.Record.Changes(o.GetAnnotations())
	if len(changes) > 0 {
		metadata["annotations"] = changes
	}
	if now := workload.Digest(o); now != d.Template {
		var value any
		if d.Template != "" {
			value = d.Template
		}
		patch["spec"] = map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotation.Digest: value}},
		}}
	} else if len(changes) == 0 {
		return nil
	}
	metadata["resourceVersion"] = o.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil { // maps of strings
		panic(err)
	}
	return text
}

// longestNote is how long the note of an event may be.
const longestNote = 1000

// tell records events: on the workload and, for a rollout, on what caused it.
func (r *reconciler) tell(ctx context.Context, o client.Object, d decision.Decision) {
	for _, e := range d.Events {
		message := e.Message
		if e.Detail != "" {
			message += " (" + e.Detail + ")"
		}
		r.event(o, e.Warning, e.Reason, message)
	}
	if d.Action != decision.Roll {
		return
	}
	for _, source := range d.Changed {
		kind, name, _ := strings.Cut(source, "/")
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if r.metadata.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, meta) == nil {
			r.event(meta, false, "RolloutTriggered", "rolling "+workload.KindOf(o)+" "+o.GetName())
		}
	}
}

func (r *reconciler) event(o client.Object, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	note := strings.ToValidUTF8(message[:min(len(message), longestNote)], "")
	r.recorder.Eventf(o, nil, kind, reason, "Rollout", "%s", note)
}
