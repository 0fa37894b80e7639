package configrollout

import (
	"context"
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
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// reconciler reconciles workloads.
type reconciler struct {
	observer

	writer           client.Writer
	metadata         client.Reader // of ConfigMaps and Secrets
	recorder         events.EventRecorder
	limiter          *limiter.Limiter
	externalRollouts *externalRollouts
	fallback         *stateFallback
}

// conflictDelay is the time until the next attempt after a conflict.
const conflictDelay = 200 * time.Millisecond

// Reconcile observes one workload, decides, and writes the decision in one request.
func (r *reconciler) Reconcile(ctx context.Context, key limiter.Key) (reconcile.Result, error) {
	o, err := r.get(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if o.GetUID() == "" {
		r.limiter.Remove(key)
		r.externalRollouts.forget(key)
		r.fallback.forget(key)
		return reconcile.Result{}, nil
	}
	if !r.limiter.Current(key, o.GetResourceVersion()) || o.GetDeletionTimestamp() != nil { // stale or terminating
		return reconcile.Result{}, nil
	}
	d, err := r.decide(context.WithoutCancel(ctx), key, o)
	if err != nil {
		r.limiter.SetReadiness(key, limiter.Blocked, "")
		return reconcile.Result{}, err
	}
	after, err := r.apply(context.WithoutCancel(ctx), key, o, d)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// decide re-reads the sources from the API server before anything is written. If it decides to roll, the rollout occupies
// a slot of the limiter.
func (r *reconciler) decide(ctx context.Context, key limiter.Key, o client.Object) (policy.Decision, error) {
	observation, err := r.observe(ctx, o, digest.TrustCache, time.Now().UTC().Truncate(time.Millisecond))
	if err != nil {
		return policy.Decision{}, err
	}
	d := policy.Decide(observation)
	if desired.Patch(o, d.Record, d.Template) == nil {
		return d, nil
	}
	mode := digest.VerifyAbsence
	if d.Action == policy.Baseline || d.Action == policy.Merge {
		mode = digest.ReadLive
	}
	if observation, err = r.observe(ctx, o, mode, observation.Now); err != nil {
		return policy.Decision{}, err
	}
	if d = policy.Decide(observation); d.Action == policy.Roll && !r.limiter.Acquire(key, d.Since) {
		observation.Slot = false
		d = policy.Decide(observation)
		if rest := r.limiter.UntilFree(); rest > 0 && (d.RequeueAfter == 0 || rest < d.RequeueAfter) {
			d.RequeueAfter = rest
		}
	}
	return d, nil
}

// apply writes the decision, records events and metrics, and returns the time until the next reconcile.
func (r *reconciler) apply(
	ctx context.Context, key limiter.Key, o client.Object, d policy.Decision,
) (after time.Duration, err error) {
	if r.limiter.SetReadiness(key, readinessOf(d), d.WaitReason) && d.WaitReason != "" {
		skipped.WithLabelValues(key.Namespace, d.WaitReason).Inc()
	}
	defer r.limiter.Release(key)
	if d.Action == policy.Release {
		r.fallback.forget(key)
	}
	patch := desired.Patch(o, d.Record, d.Template)
	if patch == nil {
		return d.RequeueAfter, nil
	}
	missing := r.fallback.missing(o)
	if missing && d.Template == workload.Digest(o) {
		if rest := r.holdBackRecord(ctx, key, o, d); rest > 0 {
			return rest, nil
		}
	}
	before := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the same type
	if err := r.writer.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name)); err != nil {
		r.recordWriteFailure(key, before, err)
		return 0, fmt.Errorf("writing what was decided about %s: %w", key, err)
	}
	if missing {
		r.fallback.markRestored(key)
	}
	r.fallback.observe(key, o)
	r.limiter.Observe(key, r.entryOf(o))
	countDecision(key.Namespace, d)
	r.recordEvents(ctx, before, d)
	return d.RequeueAfter, nil
}

// holdBackRecord keeps the record in memory while another manager keeps removing the annotations. It returns for how long;
// zero means that the record is to be written.
func (r *reconciler) holdBackRecord(ctx context.Context, key limiter.Key, o client.Object, d policy.Decision) time.Duration {
	rest, firstTime := r.fallback.hold(o, d.Record)
	if rest == 0 {
		return 0
	}
	r.limiter.Observe(key, r.entryOf(o))
	countDecision(key.Namespace, d)
	r.recordEvents(ctx, o, d)
	if firstTime {
		r.event(o, true, "AnnotationsRemoved", "another controller removes the operator's annotations again and again: "+
			"configure it to keep each annotation "+annotation.Prefix+"* that it does not set itself")
	}
	if d.RequeueAfter > 0 && d.RequeueAfter < rest {
		return d.RequeueAfter
	}
	return rest
}

// recordWriteFailure handles a failed write: until the next attempt, other workloads come first. A conflict is no failure.
// A rejection is recorded as an event, because the state annotation cannot be written.
func (r *reconciler) recordWriteFailure(key limiter.Key, o client.Object, err error) {
	if apierrors.IsConflict(err) {
		return
	}
	r.limiter.SetReadiness(key, limiter.Blocked, "")
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		r.event(o, true, "WriteRefused", "the API server refuses what the operator writes to it: "+err.Error())
	}
}

func readinessOf(d policy.Decision) limiter.Readiness {
	switch {
	case d.Ready:
		return limiter.Ready
	case d.WaitReason == policy.RolloutHeld:
		return limiter.Held
	case d.WaitReason != "":
		return limiter.Blocked
	default:
		return limiter.Unknown
	}
}

// maxNote is the maximal length of an event's note.
const maxNote = 1000

// recordEvents records events about the workload and, for a rollout, about the changed sources.
func (r *reconciler) recordEvents(ctx context.Context, o client.Object, d policy.Decision) {
	for _, e := range d.Events {
		message := e.Message
		if e.Detail != "" {
			message += " (" + e.Detail + ")"
		}
		r.event(o, e.Warning, e.Reason, message)
	}
	if d.Action != policy.Roll {
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
	note := strings.ToValidUTF8(message[:min(len(message), maxNote)], "")
	r.recorder.Eventf(o, nil, kind, reason, "Rollout", "%s", note)
}
