package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// engine runs one operator: it turns events into reconciles, and the record of a reconcile into requests.
type engine[T Object] struct {
	op         *Operator[T]
	client     client.Client // writes and uncached reads; cached reads come from cache
	cache      *readCache
	owner      *apply.Manager
	recorder   events.EventRecorder
	references *references
	namespaces []string // none means all
	derived    derivedCache

	mu     sync.Mutex
	states map[types.NamespacedName]*objectState
}

// objectState is the state that the engine keeps of one object between reconciles. Losing it on restart only resets backoff.
type objectState struct {
	uid            types.UID
	generation     int64
	failures       int // consecutive transient failures
	staleReads     staleReads
	notBefore      time.Time  // no reconcile before then, unless the object itself changes
	version        string     // resourceVersion at the last failure
	idle           *idleState // nil if there is work to do
	retries        retryTracker
	readinessCache map[types.UID]readiness // of children
	failedLast     map[childID]bool        // children with a transient failure in the last reconcile
}

// maxRounds limits the reconciles that follow each other immediately because each of them wrote. An operator that still
// writes after that does not converge. It is slowed down, so that its bug does not affect other objects.
const maxRounds = 10

func newEngine[T Object](op *Operator[T], mgr manager.Manager, s setup) error {
	primary := object.New[T]()
	cfg := rest.CopyConfig(mgr.GetConfig())
	direct, err := client.New(cfg, client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("creating the client of operator %s: %w", op.Name, err)
	}
	k, err := op.kinds(mgr.GetScheme(), mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	v, err := newReadCache(mgr, k, s.namespaces)
	if err != nil {
		return err
	}
	e := &engine[T]{
		op: op, client: direct, cache: v, owner: apply.NewManager(op.Name), recorder: mgr.GetEventRecorder(op.Name),
		states: map[types.NamespacedName]*objectState{}, namespaces: s.namespaces,
	}
	c, err := controller.New(op.Name, mgr, controller.Options{
		Reconciler: e, MaxConcurrentReconciles: s.workers, EnableWarmup: new(true),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of operator %s: %w", op.Name, err)
	}
	if err := mgr.AddReadyzCheck(op.Name, v.checkSynced); err != nil {
		return fmt.Errorf("adding the readiness check of operator %s: %w", op.Name, err)
	}
	if e.references, err = newReferences(mgr, c, v.scheme); err != nil {
		return err
	}
	return e.watch(c, primary)
}

// watch starts the event sources: the primary kind by its own events, each owned kind mapped to its parent.
func (e *engine[T]) watch(c controller.Controller, primary T) error {
	filter := e.cache.changePredicate()
	byParent := handler.EnqueueRequestsFromMapFunc(e.cache.parentRequests)
	for _, s := range e.cache.scopes {
		err := c.Watch(source.Kind[client.Object](s.parents, primary, &handler.EnqueueRequestForObject{}, filter))
		if err != nil {
			return fmt.Errorf("watching %s: %w", e.cache.primary.Kind, err)
		}
	}
	byInstance := handler.EnqueueRequestsFromMapFunc(e.cache.instanceRequests)
	for i, gvk := range e.cache.others() {
		kind, mapping := &ownedKind{cache: e.cache, gvk: gvk}, byParent
		if slices.Contains(e.cache.observed, gvk) {
			mapping = byInstance
		}
		for _, s := range e.cache.scopes {
			kind.sources = append(kind.sources, source.Kind[client.Object](s.children, e.cache.watched[i], mapping, filter))
		}
		if err := c.Watch(kind); err != nil {
			return fmt.Errorf("watching kind %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// Reconcile reconciles one object until a reconcile has nothing to write. It implements reconcile.Reconciler.
func (e *engine[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if e.op.Selects != nil && !e.op.Selects(req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	uncanceled := context.WithoutCancel(ctx) // shutdown does not cancel a reconcile in progress
	before := e.references.fingerprint(req.NamespacedName)
	for round := range maxRounds {
		// A reference may add work in each round, for example namespaces that are created one after the other.
		last := round == maxRounds-1 && e.references.fingerprint(req.NamespacedName) == before
		again, result, err := e.reconcileOnce(uncanceled, req.NamespacedName, last)
		if !again || ctx.Err() != nil {
			return result, err
		}
	}
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

var errNotConverging = errors.New("every pass over the object writes something: it does not settle")

// reconcileOnce reconciles once and reports whether another reconcile should follow at once. It never does after the last
// one.
func (e *engine[T]) reconcileOnce(
	ctx context.Context, key types.NamespacedName, last bool,
) (again bool, _ reconcile.Result, _ error) {
	loaded, gone, err := e.cache.load(ctx, key)
	switch {
	case err != nil:
		return false, reconcile.Result{}, err
	case loaded == nil:
		return false, reconcile.Result{}, e.reconcileGone(ctx, key)
	case gone:
		return false, reconcile.Result{}, nil // our write removed the finalizer; the DELETE event is pending
	}
	o, ok := loaded.(T)
	if !ok {
		return false, reconcile.Result{}, fmt.Errorf("reading %s: the cache holds a %T", key, loaded)
	}
	st := e.objectState(key, o)
	if wait := time.Until(st.notBefore); wait > 0 && st.version == o.GetResourceVersion() {
		return false, reconcile.Result{RequeueAfter: wait}, nil
	}
	observed := e.cache.snapshot(key, o.GetUID())
	// The fingerprint is read before the reconcile, so that no change during it is missed.
	now := observed.fingerprint(o) + e.references.fingerprint(key)
	if wait, idle := st.idle.stillIdle(now); idle {
		return false, reconcile.Result{RequeueAfter: observed.capRequeue(wait)}, nil
	}
	out := e.runPass(ctx, st, o, observed)
	again, result := e.result(ctx, st, o, out)
	if again && last {
		out.err = errNotConverging
		again, result = e.result(ctx, st, o, out)
	}
	if st.idle != nil {
		st.idle.fingerprint = now
		result.RequeueAfter = observed.capRequeue(result.RequeueAfter)
	}
	return again, result, nil
}

// reconcileGone cleans up after an object that does not exist.
func (e *engine[T]) reconcileGone(ctx context.Context, key types.NamespacedName) error {
	e.mu.Lock()
	if st, ok := e.states[key]; ok {
		e.cache.forget(st.uid)
		delete(e.states, key)
	}
	e.mu.Unlock()
	e.references.retainOnly(key, nil)
	err := e.collectPredecessors(ctx, key, e.cache.snapshot(key, "").predecessors)
	if apierrors.IsConflict(err) {
		return nil // the object changed since it was read; its event is pending
	}
	return err
}

func (e *engine[T]) objectState(key types.NamespacedName, o T) *objectState {
	e.mu.Lock()
	defer e.mu.Unlock()
	st, ok := e.states[key]
	if !ok || st.uid != o.GetUID() {
		st = &objectState{
			uid: o.GetUID(), retries: retryTracker{}, readinessCache: map[types.UID]readiness{}, failedLast: map[childID]bool{},
		}
		e.states[key] = st
	}
	if st.generation != o.GetGeneration() {
		st.generation = o.GetGeneration()
		st.failures = 0
		st.notBefore = time.Time{}
	}
	return st
}

// outcome is the result of one reconcile.
type outcome struct {
	wrote       bool
	err         error
	requeue     time.Duration
	version     string // resourceVersion of the object after the reconcile
	budgetSpent bool   // it ended because the write budget was exhausted
	executed    bool   // the plan was carried out, except for children with a transient failure
}

// runPass reconciles the object once: it calls the operator's function, carries out its record and stores the status.
func (e *engine[T]) runPass(ctx context.Context, st *objectState, o T, observed *snapshot) outcome {
	p := e.newPass(ctx, st, o, observed)
	defer func() { e.references.retainOnly(p.refs.key, p.refs.used) }()
	switch {
	case e.op.pausedBy(o) != "":
		return e.paused(ctx, o, p)
	case o.GetAnnotations()[DryRunAnnotation] == "true" || e.op.DryRun != nil && e.op.DryRun(o):
		return e.dryRun(ctx, o, p)
	case !o.GetDeletionTimestamp().IsZero():
		return e.finalize(ctx, o, p)
	}
	if e.op.needsFinalizer(o) { // Reconcile may rely on it
		if added, err := e.syncFinalizer(ctx, p, true); added || err != nil {
			return outcome{wrote: added, err: err}
		}
	}
	out := outcome{err: compute(ctx, o, p, e.op.Reconcile)}
	if out.err == nil {
		if wrote, err := e.syncFinalizer(ctx, p, e.op.needsFinalizer(o) || p.hasCrossNamespace()); wrote || err != nil {
			return outcome{wrote: wrote, err: err}
		}
		out.wrote, out.err = e.execute(ctx, p)
		out.executed = classify(out.err) == classTransient
	}
	return e.conclude(ctx, st, o, p, out)
}

// conclude stores the status of a reconcile and prunes: completely if the plan was complete, else outside of the namespaces
// of failed children.
func (e *engine[T]) conclude(ctx context.Context, st *objectState, o T, p *Pass[T], out outcome) outcome {
	complete, tried := out.err == nil, out.executed
	if complete {
		out.err = worstChildError(p.plan)
	}
	if classify(out.err) == classStale {
		return out // the result was computed from an outdated or partial state and is discarded
	}
	if complete {
		if err := p.runReportFuncs(ctx); err != nil {
			complete = false
			out.err = err
		}
	}
	e.op.summarize(ctx, p, out.err, st.failures)
	wrote, err := e.writeStatus(ctx, o, p)
	out.wrote = out.wrote || wrote
	out.requeue = p.requeue
	out.version = p.Object.GetResourceVersion()
	if err != nil {
		return outcome{wrote: out.wrote, err: err, version: out.version}
	}
	defer func() { out.budgetSpent = p.budget.spent }()
	if complete || tried {
		pruned, err := e.prune(ctx, p, tried)
		out.wrote = out.wrote || pruned
		if err != nil && !tried {
			out.err = err
		}
	}
	if err := e.collectPredecessors(ctx, p.refs.key, p.snapshot.predecessors); err != nil && out.err == nil {
		out.err = err
	}
	return out
}

func (e *engine[T]) newPass(ctx context.Context, st *objectState, o T, observed *snapshot) *Pass[T] {
	key := client.ObjectKeyFromObject(o)
	if len(st.readinessCache) > 2*len(observed.children) { // most of the children no longer exist
		clear(st.readinessCache)
	}
	return &Pass[T]{
		Object: object.Copy(o), Log: log.FromContext(ctx), Now: time.Now(), Namespaces: e.namespaces,
		passRecord: passRecord{
			snapshot: observed, retries: st.retries, readinessCache: st.readinessCache, failedLast: st.failedLast,
			derived: &e.derived,
			refs:    referenceReader{lookup: e.references.get, read: readFull(e.client), key: key},
		},
	}
}

// syncFinalizer adds the finalizer before the first effect that needs it, or removes it if it is no longer needed.
func (e *engine[T]) syncFinalizer(ctx context.Context, p *Pass[T], needed bool) (wrote bool, err error) {
	change := finalizer.Remove
	if needed {
		change = finalizer.Add
	}
	wrote, err = change(ctx, e.client, p.Object, e.op.finalizerName())
	if wrote {
		e.cache.recordWrite(e.cache.primary, "", object.Copy(p.Object))
	}
	return wrote, outdated(err)
}

// compute calls the operator's function. A panic in it fails this object only. Of the changes that the function made to the
// object only those of the status are kept.
func compute[T Object](
	ctx context.Context, o T, p *Pass[T], f func(context.Context, *Pass[T]) error,
) (err error) {
	defer func() {
		computed := p.Object
		p.Object = object.Copy(o)
		object.SetStatus(p.Object, computed)
	}()
	defer recoverPanic(ctx, &err)
	if err := f(ctx, p); err != nil {
		return err
	}
	if p.err != nil {
		return panicked(p.err)
	}
	return nil
}

// recoverPanic turns a panic of the operator's code into an error. It must be deferred.
func recoverPanic(ctx context.Context, err *error) {
	if x := recover(); x != nil {
		*err = panicked(x)
		log.FromContext(ctx).Error(*err, "The operator panicked", "stack", string(debug.Stack()))
	}
}
