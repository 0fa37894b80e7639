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

// engine runs one operator: it turns events into passes, and what a pass recorded into requests.
type engine[T Object] struct {
	op         *Operator[T]
	client     client.Client // talks to the API server; reads come from view
	view       *view
	owner      *apply.Manager
	recorder   events.EventRecorder
	references *references
	namespaces []string // none means all
	excerpts   excerpts

	mu     sync.Mutex
	states map[types.NamespacedName]*state
}

// state is what the engine remembers of one object between passes. Losing it, in a restart, costs nothing but patience.
type state struct {
	uid        types.UID
	generation int64
	failures   int // transient ones in a row
	stale      stale
	notBefore  time.Time // no pass before then, unless the object itself changes
	version    string    // resourceVersion at the last failure
	calm       *calm     // nil if there is something to do
	troubles   patience
	known      map[types.UID]readiness // of children
	late       map[childID]bool        // children that failed in the last pass, in a way that may not come again
}

// maxRounds is how many passes follow each other at once while each of them writes. An operator that still writes then
// does not converge; it is slowed down, so that its bug is not everybody's.
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
	v, err := newView(mgr, k, s.namespaces)
	if err != nil {
		return err
	}
	e := &engine[T]{
		op: op, client: direct, view: v, owner: apply.NewManager(op.Name), recorder: mgr.GetEventRecorder(op.Name),
		states: map[types.NamespacedName]*state{}, namespaces: s.namespaces,
	}
	c, err := controller.New(op.Name, mgr, controller.Options{
		Reconciler: e, MaxConcurrentReconciles: s.workers, EnableWarmup: new(true),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of operator %s: %w", op.Name, err)
	}
	if err := mgr.AddReadyzCheck(op.Name, v.ready); err != nil {
		return fmt.Errorf("adding the readiness check of operator %s: %w", op.Name, err)
	}
	if e.references, err = newReferences(mgr, c, v.scheme); err != nil {
		return err
	}
	return e.watch(c, primary)
}

// watch feeds the controller: the primary by its own events, and each owned kind by those of its parent's.
func (e *engine[T]) watch(c controller.Controller, primary T) error {
	filter := e.view.news()
	byParent := handler.EnqueueRequestsFromMapFunc(e.view.requests)
	for _, s := range e.view.scopes {
		err := c.Watch(source.Kind[client.Object](s.parents, primary, &handler.EnqueueRequestForObject{}, filter))
		if err != nil {
			return fmt.Errorf("watching %s: %w", e.view.primary.Kind, err)
		}
	}
	byInstance := handler.EnqueueRequestsFromMapFunc(e.view.instances)
	for i, gvk := range e.view.others() {
		kind, whose := &ownedKind{view: e.view, gvk: gvk}, byParent
		if slices.Contains(e.view.observed, gvk) {
			whose = byInstance
		}
		for _, s := range e.view.scopes {
			kind.sources = append(kind.sources, source.Kind[client.Object](s.children, e.view.watched[i], whose, filter))
		}
		if err := c.Watch(kind); err != nil {
			return fmt.Errorf("watching kind %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// Reconcile makes passes over one object until one of them has nothing to write.
func (e *engine[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if e.op.Selects != nil && !e.op.Selects(req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	work := context.WithoutCancel(ctx) // who is told to stop finishes the pass under way, and makes no other
	before := e.references.sight(req.NamespacedName)
	for round := range maxRounds {
		// What is referred to may give it more to do with each pass, as when namespaces come one after the other.
		last := round == maxRounds-1 && e.references.sight(req.NamespacedName) == before
		again, result, err := e.once(work, req.NamespacedName, last)
		if !again || ctx.Err() != nil {
			return result, err
		}
	}
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

var errUnsettled = errors.New("every pass over the object writes something: it does not settle")

// once makes one pass and reports whether another should follow at once. After the last one it never should.
func (e *engine[T]) once(
	ctx context.Context, key types.NamespacedName, last bool,
) (again bool, _ reconcile.Result, _ error) {
	loaded, gone, err := e.view.load(ctx, key)
	switch {
	case err != nil:
		return false, reconcile.Result{}, err
	case loaded == nil:
		return false, reconcile.Result{}, e.absent(ctx, key)
	case gone:
		return false, reconcile.Result{}, nil // the event of its end is on the way
	}
	o, ok := loaded.(T)
	if !ok {
		return false, reconcile.Result{}, fmt.Errorf("reading %s: the cache holds a %T", key, loaded)
	}
	st := e.state(key, o)
	if wait := time.Until(st.notBefore); wait > 0 && st.version == o.GetResourceVersion() {
		return false, reconcile.Result{RequeueAfter: wait}, nil
	}
	seen := e.view.snapshot(key, o.GetUID())
	now := seen.sight(o) + e.references.sight(key) // of before the pass, so that nothing which comes during it is missed
	if wait, calm := st.calm.lasts(now); calm {
		return false, reconcile.Result{RequeueAfter: seen.soon(wait)}, nil
	}
	out := e.pass(ctx, st, o, seen)
	again, result := e.settle(ctx, st, o, out)
	if again && last {
		out.err = errUnsettled
		again, result = e.settle(ctx, st, o, out)
	}
	if st.calm != nil {
		st.calm.sight = now
		result.RequeueAfter = seen.soon(result.RequeueAfter)
	}
	return again, result, nil
}

// absent tidies up after an object that does not exist.
func (e *engine[T]) absent(ctx context.Context, key types.NamespacedName) error {
	e.mu.Lock()
	if st, ok := e.states[key]; ok {
		e.view.forget(st.uid)
		delete(e.states, key)
	}
	e.mu.Unlock()
	e.references.set(key, nil)
	err := e.collectFormer(ctx, key, e.view.snapshot(key, "").former)
	if apierrors.IsConflict(err) {
		return nil // the object changed since it was read; its event is on the way
	}
	return err
}

func (e *engine[T]) state(key types.NamespacedName, o T) *state {
	e.mu.Lock()
	defer e.mu.Unlock()
	st, ok := e.states[key]
	if !ok || st.uid != o.GetUID() {
		st = &state{uid: o.GetUID(), troubles: patience{}, known: map[types.UID]readiness{}, late: map[childID]bool{}}
		e.states[key] = st
	}
	if st.generation != o.GetGeneration() {
		st.generation, st.failures, st.notBefore = o.GetGeneration(), 0, time.Time{}
	}
	return st
}

// outcome is what came of one pass.
type outcome struct {
	wrote   bool
	err     error
	requeue time.Duration
	version string // of the object after the pass
	more    bool   // it ended because its turn was over
	tried   bool   // its plan was carried out, but for children that failed in a way that may not come again
}

// pass looks at the object once: it lets the operator compute, carries out what it recorded and stores the status.
func (e *engine[T]) pass(ctx context.Context, st *state, o T, seen *snapshot) outcome {
	p := e.newPass(ctx, st, o, seen)
	defer func() { e.references.set(p.refs.key, p.refs.used) }()
	switch {
	case e.op.pausedBy(o) != "":
		return e.paused(ctx, o, p)
	case o.GetAnnotations()[DryRunAnnotation] == "true" || e.op.DryRun != nil && e.op.DryRun(o):
		return e.dryRun(ctx, o, p)
	case !o.GetDeletionTimestamp().IsZero():
		return e.finalize(ctx, o, p)
	}
	if e.op.needsFinalizer(o) { // which Reconcile may rely on
		if added, err := e.guard(ctx, p, true); added || err != nil {
			return outcome{wrote: added, err: err}
		}
	}
	out := outcome{err: compute(ctx, o, p, e.op.Reconcile)}
	if out.err == nil {
		if wrote, err := e.guard(ctx, p, e.op.needsFinalizer(o) || p.remote()); wrote || err != nil {
			return outcome{wrote: wrote, err: err}
		}
		out.wrote, out.err = e.execute(ctx, p)
		out.tried = classify(out.err) == classTransient
	}
	return e.conclude(ctx, st, o, p, out)
}

// conclude stores the status of a pass and prunes: everywhere if the plan was complete, else where nothing of it failed.
func (e *engine[T]) conclude(ctx context.Context, st *state, o T, p *Pass[T], out outcome) outcome {
	complete, tried := out.err == nil, out.tried
	if complete {
		out.err = worst(p.plan)
	}
	if classify(out.err) == classStale {
		return out // it saw an old state or only a part of it, and what it computed from that is not worth telling
	}
	if complete {
		if err := p.tell(ctx); err != nil {
			complete, out.err = false, err
		}
	}
	e.op.summarize(ctx, p, out.err, st.failures)
	wrote, err := e.writeStatus(ctx, o, p)
	out.wrote = out.wrote || wrote
	out.requeue, out.version = p.requeue, p.Object.GetResourceVersion()
	if err != nil {
		return outcome{wrote: out.wrote, err: err, version: out.version}
	}
	defer func() { out.more = p.turn.ended }()
	if complete || tried {
		pruned, err := e.prune(ctx, p, tried)
		out.wrote = out.wrote || pruned
		if err != nil && !tried {
			out.err = err
		}
	}
	if err := e.collectFormer(ctx, p.refs.key, p.seen.former); err != nil && out.err == nil {
		out.err = err
	}
	return out
}

func (e *engine[T]) newPass(ctx context.Context, st *state, o T, seen *snapshot) *Pass[T] {
	key := client.ObjectKeyFromObject(o)
	if len(st.known) > 2*len(seen.children) { // many of them are gone
		clear(st.known)
	}
	return &Pass[T]{
		Object: object.Copy(o), Log: log.FromContext(ctx), Now: time.Now(), Namespaces: e.namespaces,
		record: record{
			seen: seen, troubles: st.troubles, known: st.known, late: st.late, excerpts: &e.excerpts,
			refs: referrer{lookup: e.references.get, read: readFull(e.client), key: key},
		},
	}
}

// guard stores the finalizer before the first effect that needs it, or removes one that is needed no longer.
func (e *engine[T]) guard(ctx context.Context, p *Pass[T], needed bool) (wrote bool, err error) {
	change := finalizer.Remove
	if needed {
		change = finalizer.Add
	}
	wrote, err = change(ctx, e.client, p.Object, e.op.finalizerName())
	if wrote {
		e.view.wrote(e.view.primary, "", object.Copy(p.Object))
	}
	return wrote, outdated(err)
}

// compute calls the operator's function. A panic in it concerns this object only, and of what the function did to the
// object its status alone is kept.
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

// recoverPanic, deferred, turns a panic of the operator's code into an error.
func recoverPanic(ctx context.Context, err *error) {
	if x := recover(); x != nil {
		*err = panicked(x)
		log.FromContext(ctx).Error(*err, "The operator panicked", "stack", string(debug.Stack()))
	}
}
