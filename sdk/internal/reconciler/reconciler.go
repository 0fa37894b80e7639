// Package reconciler carries out the reconciles of one operator: it turns events into reconciles, and the record of each
// reconcile into requests.
//
// Each stage has a file: load (the observed state, and whether there is work), guard (the finalizer), pass (the operator's
// function), apply (the children), status, prune, finalize; result turns the outcome into a workqueue result. The package is
// not generic: package sdk adapts the Go type of the custom resource. Everything here may be interrupted at any point: the
// next reconcile starts again from the observed state.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
)

// Reconciler reconciles the objects of one operator. It implements reconcile.Reconciler.
type Reconciler struct {
	op         *desired.Definition
	client     client.Client // writes and uncached reads; cached reads come from cache
	cache      *observed.Cache
	owner      *apply.FieldManager
	recorder   events.EventRecorder
	references *reference.Watches
	namespaces []string // none means all
	derived    reference.DerivedCache

	mu     sync.Mutex
	states map[types.NamespacedName]*objectState
}

// maxRounds limits the reconciles that follow each other immediately because each of them wrote. An operator that still
// writes after that does not converge. It is slowed down, so that its bug does not affect other objects.
const maxRounds = 10

// New adds the operator to a manager, for objects in these namespaces, or in all if there are none.
func New(op *desired.Definition, mgr manager.Manager, namespaces []string, workers int) error {
	k, err := op.Kinds(mgr.GetScheme(), mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	if mgr, err = observed.WaitForCRD(mgr, k); err != nil {
		return err
	}
	cfg := rest.CopyConfig(mgr.GetConfig())
	direct, err := client.New(cfg, client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("creating the client of operator %s: %w", op.Name, err)
	}
	v, err := observed.NewCache(mgr, k, namespaces)
	if err != nil {
		return err
	}
	e := &Reconciler{
		op: op, client: direct, cache: v, owner: apply.NewFieldManager(op.Name), recorder: mgr.GetEventRecorder(op.Name),
		states: map[types.NamespacedName]*objectState{}, namespaces: namespaces,
	}
	c, err := controller.New(op.Name, mgr, controller.Options{
		Reconciler: e, MaxConcurrentReconciles: workers, EnableWarmup: new(true),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of operator %s: %w", op.Name, err)
	}
	if err := mgr.AddReadyzCheck(op.Name, v.CheckSynced); err != nil {
		return fmt.Errorf("adding the readiness check of operator %s: %w", op.Name, err)
	}
	if e.references, err = reference.New(mgr, c, v.Scheme); err != nil {
		return err
	}
	return v.Watch(c)
}

// Reconcile reconciles one object until a reconcile has nothing to write.
func (e *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !e.op.Selects(req.NamespacedName) {
		return reconcile.Result{}, nil
	}
	uncanceled := context.WithoutCancel(ctx) // shutdown does not cancel a reconcile in progress
	before := e.references.Fingerprint(req.NamespacedName)
	for round := range maxRounds {
		// A reference may add work in each round, for example namespaces that are created one after the other.
		last := round == maxRounds-1 && e.references.Fingerprint(req.NamespacedName) == before
		again, result, err := e.reconcileOnce(uncanceled, req.NamespacedName, last)
		if !again || ctx.Err() != nil {
			return result, err
		}
	}
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

var errNotConverging = errors.New("every reconcile of the object writes something: it does not converge")
