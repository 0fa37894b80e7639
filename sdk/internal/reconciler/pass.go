package reconciler

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// outcome is the result of one reconcile.
type outcome struct {
	wrote       bool
	err         error
	requeue     time.Duration
	version     string // resourceVersion of the object after the reconcile
	budgetSpent bool   // it ended because the write budget was exhausted
	alongside   error  // the failure of another child in a stale reconcile
	executed    bool   // the plan was carried out, except for children with a transient failure
}

// runPass reconciles the object once: it calls the operator's function, carries out its record and stores the status.
func (e *Reconciler) runPass(ctx context.Context, st *objectState, o desired.Object, seen *observed.Snapshot) outcome {
	p := e.newPass(ctx, st, o, seen)
	defer func() { e.references.RetainOnly(p.References.Key, p.References.Used) }()
	switch {
	case e.op.PausedBy(o) != "":
		return e.paused(ctx, o, p)
	case e.op.IsDryRun(o):
		return e.dryRun(ctx, o, p)
	case !o.GetDeletionTimestamp().IsZero():
		return e.finalize(ctx, st, o, p)
	}
	if e.op.NeedsFinalizer(o) { // Reconcile may rely on it
		if added, err := e.syncFinalizer(ctx, p, true); added || err != nil {
			return outcome{wrote: added, err: err}
		}
	}
	out := outcome{err: desired.Compute(ctx, o, p, e.op.Reconcile)}
	waits := retry.Classify(out.err) == retry.ClassWait && len(p.External) > 0 // perhaps for one of these resources
	if out.err == nil || waits {
		if wrote, err := e.syncObject(ctx, o, p); wrote || err != nil {
			return outcome{wrote: wrote, err: err}
		}
		out = e.carryOut(ctx, st, p, out.err)
	}
	return e.conclude(ctx, st, o, p, out)
}

// syncObject adds or removes the finalizer, and the labels and annotations that were recorded for the object itself.
func (e *Reconciler) syncObject(ctx context.Context, o desired.Object, p *desired.Pass) (wrote bool, err error) {
	needed := e.op.NeedsFinalizer(o) || p.HasCrossNamespace() || p.HasExternal() || p.Unfinished != nil
	if wrote, err = e.syncFinalizer(ctx, p, needed); wrote || err != nil {
		return wrote, err
	}
	return e.syncMetadata(ctx, p)
}

// carryOut applies the children and the external resources that were recorded. If the reconcile waits, the record of the
// children is not complete, and none is applied.
func (e *Reconciler) carryOut(ctx context.Context, st *objectState, p *desired.Pass, waits error) outcome {
	if waits != nil {
		e.applyExternal(ctx, st, p, false)
		return outcome{err: errors.Join(p.ExternalErr, waits)}
	}
	wrote, err := e.execute(ctx, p)
	out := outcome{wrote: wrote, err: err, executed: retry.Classify(err) == retry.ClassTransient}
	if !isStale(errors.Join(out.err, desired.WorstChildError(p.Plan))) { // else the status cannot be stored
		e.applyExternal(ctx, st, p, true)
	}
	return out
}

// applyExternal makes the requests for external resources.
func (e *Reconciler) applyExternal(ctx context.Context, st *objectState, p *desired.Pass, complete bool) {
	if e.op.External != nil {
		e.op.External.Apply(ctx, p, e.op.Connect, st.external, complete)
	}
}

// conclude stores the status of a reconcile and prunes: completely if the plan was complete, else outside of the namespaces
// of failed children.
func (e *Reconciler) conclude(ctx context.Context, st *objectState, o desired.Object, p *desired.Pass, out outcome) outcome {
	complete, tried := out.err == nil, out.executed
	if complete {
		out.err = errors.Join(p.ExternalErr, desired.WorstChildError(p.Plan)) // the first of equal ones is reported
	}
	if retry.Classify(out.err) == retry.ClassStale {
		out.alongside = desired.WorstChildError(p.Plan)
		return out // the result was computed from an outdated or partial state and is discarded
	}
	if complete {
		if err := p.RunPlanExecutedFuncs(ctx); err != nil {
			complete = false
			out.err = err
		}
	}
	reported := out.err
	if complete && reported == nil {
		reported = st.unfinished()
	}
	status.Summarize(ctx, e.op, p, reported, st.failures)
	wrote, err := e.writeStatus(ctx, o, p)
	out.wrote = out.wrote || wrote
	out.requeue = p.Requeue
	out.version = p.Object.GetResourceVersion()
	if err != nil {
		return outcome{wrote: out.wrote, err: err, version: out.version}
	}
	return e.finish(ctx, st, p, out, complete, tried, reported)
}

// finish prunes after the status was stored with the reported error.
func (e *Reconciler) finish(
	ctx context.Context, st *objectState, p *desired.Pass, out outcome, complete, tried bool, reported error,
) outcome {
	wrote, err := e.collect(ctx, p, complete, tried)
	out.wrote = out.wrote || wrote || reported != nil && out.err == nil && err == nil // the status is to be corrected
	out.budgetSpent = p.Budget.Spent
	st.afterStatus = err
	if err != nil && !tried && (complete || out.err == nil) {
		out.err = err
	}
	return out
}

// collect deletes the children that are not in the plan, and those of former objects of the same name.
func (e *Reconciler) collect(ctx context.Context, p *desired.Pass, complete, tried bool) (wrote bool, err error) {
	if complete || tried {
		wrote, err = e.prune(ctx, p, tried)
	}
	return wrote, cmp.Or(err, e.collectPredecessors(ctx, p.References.Key, p.Snapshot.PredecessorChildren))
}

func (e *Reconciler) newPass(ctx context.Context, st *objectState, o desired.Object, seen *observed.Snapshot) *desired.Pass {
	key := client.ObjectKeyFromObject(o)
	if len(st.readinessCache) > 2*len(seen.Children) { // most of the children no longer exist
		clear(st.readinessCache)
	}
	return &desired.Pass{
		Object: object.Copy(o), Log: log.FromContext(ctx), Now: time.Now(), Namespaces: e.namespaces,
		Record: desired.Record{
			Snapshot: seen, Retries: st.retries, ReadinessCache: st.readinessCache, PreviouslyFailed: st.previouslyFailed,
			Derived: &e.derived, ExternalKinds: e.op.ExternalKinds(),
			References: reference.Reader{Lookup: e.references.Get, Read: reference.ReadFull(e.client), Key: key},
		},
	}
}
