package mutants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that is edge-triggered: it reacts to changes, and misses the ones that it does not observe.
const (
	memory    bug = "memory"
	onDelete  bug = "on-delete"
	skipReady bug = "skip-ready"
)

func missedStateMutants() class {
	return class{
		name: "missed-state", setup: setupRoutes, account: constantAccount("route"),
		flaws: []flaw{
			{memory, "A host is removed only if the same process has added it. After a restart, old hosts remain."},
			{onDelete, "The hosts of a deleted Route are removed only on its deletion event. If the event is missed, they remain."},
			{skipReady, "After a start, the operator skips Ready objects, although they may have changed while it was down."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newRoute("shop", "shop.example", "www.shop.example")) }},
			{"create another", func(k *testkit.K) { k.Apply(newRoute("blog", "blog.example")) }},
			{"remove a host", func(k *testkit.K) { k.Apply(newRoute("shop", "shop.example")) }},
			{"delete", func(k *testkit.K) { k.Delete(newRoute("blog")) }},
			{"claim a host", func(k *testkit.K) { k.Apply(newRoute("wiki", "wiki.example", "shop.example")) }},
		},
	}
}

func newRoute(name string, hosts ...string) *v1.Route {
	return &v1.Route{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.RouteSpec{Hosts: hosts}}
}

// tableName is the ConfigMap that maps hosts to Routes. A label tells it from one of another owner.
const (
	tableName  = "routes"
	tableLabel = "table"
)

func setupRoutes(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &routes{operator: newOperator(mgr, b)}
		c := ctrl.NewControllerManagedBy(mgr).
			For(&v1.Route{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.allRoutes))
		if b == skipReady {
			c.WithEventFilter(predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool {
				route, ok := e.Object.(*v1.Route)
				return ok && !meta.IsStatusConditionTrue(route.Status.Conditions, "Ready")
			}})
		}
		return c.Complete(newReconciler(r.reconcile))
	}
}

type routes struct {
	operator

	published map[string]string // entries that this process has added to the table
}

// allRoutes returns every Route when the table has changed, and the table itself, because there may be no Route left.
func (r *routes) allRoutes(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() != tableName {
		return nil
	}
	requests := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
	list := &v1.RouteList{}
	if r.List(ctx, list, client.InNamespace(obj.GetNamespace())) != nil {
		return requests // the cache is being stopped
	}
	for _, route := range list.Items {
		key := types.NamespacedName{Namespace: route.Namespace, Name: route.Name}
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// reconcile updates the whole table, independent of the request, and then the status of one Route.
func (r *routes) reconcile(ctx context.Context, req reconcile.Request) error {
	list := &v1.RouteList{}
	if err := r.List(ctx, list, client.InNamespace(req.Namespace)); err != nil {
		return fmt.Errorf("listing the routes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1.Route) int { return strings.Compare(a.Name, b.Name) })
	table := map[string]string{}
	var route *v1.Route
	for i, item := range list.Items {
		if !item.DeletionTimestamp.IsZero() {
			continue
		}
		for _, host := range item.Spec.Hosts {
			if _, taken := table[host]; !taken {
				table[host] = item.Name
			}
		}
		if item.Name == req.Name {
			route = &list.Items[i]
		}
	}
	if err := r.publish(ctx, req, list.Items, table); err != nil || route == nil {
		return err
	}
	return r.updateStatus(ctx, route.DeepCopy(), route, owns(route, table))
}

// owns returns the condition of a Route: whether all of its hosts are assigned to it.
func owns(route *v1.Route, table map[string]string) metav1.Condition {
	for _, host := range route.Spec.Hosts {
		if owner := table[host]; owner != route.Name {
			return metav1.Condition{
				Status: metav1.ConditionFalse, Reason: "HostTaken",
				Message: fmt.Sprintf("%s belongs to Route %s: remove it from one of them", host, owner),
			}
		}
	}
	return readyCondition()
}

// keepHosts adds the stored hosts to the table that an operator with a bug does not remove.
func (r *routes) keepHosts(req reconcile.Request, routes []v1.Route, stored, table map[string]string) {
	for host, owner := range stored {
		exists := slices.ContainsFunc(routes, func(route v1.Route) bool { return route.Name == owner })
		keep := r.bug == memory && r.published[host] == "" || r.bug == onDelete && !exists && owner != req.Name
		if keep && table[host] == "" {
			table[host] = owner
		}
	}
}

// publish stores the table, or deletes it if it is empty.
func (r *routes) publish(
	ctx context.Context, req reconcile.Request, routes []v1.Route, table map[string]string,
) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: tableName}}
	err := r.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the table: %w", err)
	}
	if err == nil && cm.Labels[tableLabel] != tableName {
		if len(table) == 0 {
			return nil
		}
		return fmt.Errorf("storing the table: %w", errForeign)
	}
	ours := maps.Clone(table)
	r.keepHosts(req, routes, cm.Data, table)
	switch {
	case len(table) > 0:
		_, err = controllerutil.CreateOrUpdate(ctx, r, cm, func() error {
			setLabel(cm, tableLabel, tableName)
			cm.Data = table
			return nil
		})
	case apierrors.IsNotFound(err):
		err = nil
	default:
		err = r.Delete(ctx, cm, client.Preconditions{UID: &cm.UID, ResourceVersion: &cm.ResourceVersion})
		err = client.IgnoreNotFound(err)
	}
	if err != nil {
		return fmt.Errorf("storing the table: %w", err)
	}
	r.published = ours
	return nil
}
