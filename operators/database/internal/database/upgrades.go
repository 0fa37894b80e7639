package database

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	events "sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

// upgradesName is the name of the controller of upgrades and of its field manager.
const upgradesName = "database-upgrades"

// NewUpgrades returns the controller that limits the number of Databases whose pods a new version of the operator restarts
// at a time. A reconcile of a Database marks its StatefulSet with [desired.PendingTemplateAnnotation] instead of changing
// the template, and changes it when this controller has set [desired.TemplateTurnAnnotation]. The turn ends when all
// members are ready with the template.
//
// All state is in these annotations, and one worker gives the turns, so a restart of the operator loses nothing. A turn is
// given after a list that no cache has answered, because a cache may not have the last turns yet.
func NewUpgrades(limit int) *program.CustomController {
	return &program.CustomController{
		Name: upgradesName,
		Doc:  "The database-upgrades controller limits how many databases a new version of the operator restarts at a time.",
		Setup: func(mgr manager.Manager, namespaces []string, _ int) error {
			return (&upgrades{limit: limit, live: mgr.GetAPIReader(), writer: mgr.GetClient()}).setUp(mgr, namespaces)
		},
	}
}

// upgrades reconciles the StatefulSets of all Databases as one.
type upgrades struct {
	limit      int
	namespaces []string      // empty means all
	cached     client.Reader // of reduced StatefulSets
	live       client.Reader // asks the API server
	writer     client.Writer
}

func (u *upgrades) setUp(mgr manager.Manager, namespaces []string) error {
	if err := v1.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("adding the types: %w", err)
	}
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{sdk.ManagedByLabel: desired.Manager}),
		DefaultTransform: func(o any) (any, error) {
			if set, ok := o.(*appsv1.StatefulSet); ok {
				return desired.ReduceForUpgrade(set), nil
			}
			return o, nil
		},
	}
	for _, n := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[n] = cache.Config{}
	}
	sets, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("making the cache of StatefulSets: %w", err)
	}
	if err := mgr.Add(sets); err != nil {
		return fmt.Errorf("adding the cache of StatefulSets: %w", err)
	}
	u.namespaces = namespaces
	u.cached = sets
	c, err := controller.New(upgradesName, mgr, controller.Options{
		MaxConcurrentReconciles: 1, Reconciler: reconcile.Func(u.reconcile),
	})
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	if err := c.Watch(events.Kind[client.Object](sets, &appsv1.StatefulSet{}, all, concerned())); err != nil {
		return fmt.Errorf("watching StatefulSets: %w", err)
	}
	return nil
}

// concerned passes the events of StatefulSets that wait, or that have or had a turn.
func concerned() predicate.Predicate {
	marked := func(o client.Object) bool { return pendingOf(o) != "" || turnOf(o) != "" }
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool { return marked(e.Object) },
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return marked(e.ObjectOld) || marked(e.ObjectNew) },
		DeleteFunc: func(e ctrlevent.DeleteEvent) bool { return marked(e.Object) },
	}
}

func pendingOf(o client.Object) string { return o.GetAnnotations()[desired.PendingTemplateAnnotation] }

func turnOf(o client.Object) string { return o.GetAnnotations()[desired.TemplateTurnAnnotation] }

// reconcile ends the turns that are over and gives as many as are free.
func (u *upgrades) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	sets, err := list(ctx, u.cached, "")
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, set := range sets {
		if turnOf(set) != "" && !hasTurn(set) && pendingOf(set) == "" {
			if err := u.setTurn(ctx, set, nil); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	if next, _ := queue(sets, u.limit); len(next) == 0 {
		return reconcile.Result{}, nil
	}
	if sets, err = u.listLive(ctx); err != nil {
		return reconcile.Result{}, err
	}
	next, free := queue(sets, u.limit)
	return u.giveTurns(ctx, next, free)
}

// giveTurns gives turns to the first StatefulSets whose Database is reconciled: one that is paused would never use it.
func (u *upgrades) giveTurns(ctx context.Context, next []*appsv1.StatefulSet, free int) (reconcile.Result, error) {
	var result reconcile.Result
	for _, set := range next {
		again := hasTurn(set) // with an older template
		if !again && free == 0 {
			continue
		}
		owner := metav1.GetControllerOf(set)
		db := &v1.Database{}
		err := u.live.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: owner.Name}, db)
		if client.IgnoreNotFound(err) != nil {
			return result, fmt.Errorf("reading Database %s/%s: %w", set.Namespace, owner.Name, err)
		}
		if db.UID != owner.UID || db.DeletionTimestamp != nil { // it does not exist, or is not reconciled any more
			continue
		}
		if db.Spec.Paused {
			result.RequeueAfter = time.Minute // its end is no event of the StatefulSet
			continue
		}
		if err := u.setTurn(ctx, set, new(pendingOf(set))); err != nil {
			return result, err
		}
		if !again {
			free--
		}
	}
	return result, nil
}

// queue returns the StatefulSets that wait for a turn, in the order in which they have it, and the number of free turns. It
// returns no StatefulSet if none can have a turn.
func queue(sets []*appsv1.StatefulSet, limit int) (next []*appsv1.StatefulSet, free int) {
	free = limit
	for _, set := range sets {
		has := hasTurn(set)
		if has {
			free--
		}
		if pending := pendingOf(set); pending != "" && pending != turnOf(set) {
			next = append(next, set)
		}
	}
	free = max(0, free)
	if free == 0 {
		next = slices.DeleteFunc(next, func(set *appsv1.StatefulSet) bool { return !hasTurn(set) })
	}
	slices.SortFunc(next, func(a, b *appsv1.StatefulSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return next, free
}

// hasTurn reports whether the StatefulSet has a turn that is not over: the template is still to be changed, or not all
// members are ready with it. A change of the spec ends the turn, because its template has a digest of its own.
func hasTurn(set *appsv1.StatefulSet) bool {
	turn := turnOf(set)
	return turn != "" && (turn == pendingOf(set) || turn == desired.TemplateDigest(set) && !settled(set))
}

// settled reports whether all members are ready with the current template.
func settled(set *appsv1.StatefulSet) bool {
	is := &set.Status
	var replicas int32 = 1
	if set.Spec.Replicas != nil {
		replicas = *set.Spec.Replicas
	}
	return is.ObservedGeneration >= set.Generation && is.Replicas == replicas && is.ReadyReplicas == replicas &&
		(replicas == 0 || is.CurrentRevision == is.UpdateRevision)
}

// setTurn writes the turn, or removes it if it is nil. The resource version makes the write fail if the StatefulSet has
// changed meanwhile; an event follows then.
func (u *upgrades) setTurn(ctx context.Context, set *appsv1.StatefulSet, turn *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": set.ResourceVersion, "annotations": map[string]*string{desired.TemplateTurnAnnotation: turn},
	}})
	if err != nil {
		return fmt.Errorf("encoding the turn of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	err = u.writer.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(upgradesName))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the turn of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return nil
}

func (u *upgrades) listLive(ctx context.Context) (all []*appsv1.StatefulSet, err error) {
	if len(u.namespaces) == 0 {
		return list(ctx, u.live, "")
	}
	for _, namespace := range u.namespaces {
		sets, err := list(ctx, u.live, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, sets...)
	}
	return all, nil
}

// list returns the StatefulSets of Databases, reduced.
func list(ctx context.Context, from client.Reader, namespace string) ([]*appsv1.StatefulSet, error) {
	found := &appsv1.StatefulSetList{}
	err := from.List(ctx, found, client.InNamespace(namespace), client.MatchingLabels{sdk.ManagedByLabel: desired.Manager})
	if err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	var all []*appsv1.StatefulSet
	for i := range found.Items {
		set := desired.ReduceForUpgrade(&found.Items[i])
		owner := metav1.GetControllerOf(set)
		if owner != nil && owner.Kind == "Database" && set.DeletionTimestamp == nil {
			all = append(all, set)
		}
	}
	return all, nil
}
