// Package aggregate fills aggregated ClusterRoles, such as edit, on an API server without controllers. Without it they would
// have no rules, so that an operator could bind them without a right to do so.
//
// It does what the clusterrole-aggregation-controller of Kubernetes does.
package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// controller fills the aggregated ClusterRoles of one API server.
type controller struct {
	client kubernetes.Interface
	roles  rbaclisters.ClusterRoleLister
}

// Start fills all aggregated ClusterRoles, and those that change until ctx ends.
func Start(ctx context.Context, cfg *rest.Config) error {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "testkit-aggregation"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Rbac().V1().ClusterRoles()
	c := &controller{client: client, roles: informer.Lister()}
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // one more pass is due already
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify,
	}); err != nil {
		return fmt.Errorf("watching ClusterRoles: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := c.fillAll(ctx); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if err := c.fillAll(ctx); err != nil && ctx.Err() == nil {
				utilruntime.HandleErrorWithContext(ctx, err, "Aggregating ClusterRoles")
			}
		}
	}()
	return nil
}

// fillAll brings all aggregated ClusterRoles up to date. A role that was changed meanwhile is left to the pass of that
// change.
func (c *controller) fillAll(ctx context.Context) error {
	roles, err := c.roles.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing ClusterRoles: %w", err)
	}
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		rules, err := rulesOf(role, roles)
		if err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(rules, role.Rules) {
			continue
		}
		filled := role.DeepCopy()
		filled.Rules = rules
		_, err = c.client.RbacV1().ClusterRoles().Update(ctx, filled, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("filling ClusterRole %s: %w", role.Name, err)
		}
	}
	return nil
}

// rulesOf returns the rules of all roles that an aggregated role selects, each once, in the order of the roles' names.
func rulesOf(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	byName := slices.SortedFunc(slices.Values(roles), func(a, b *rbacv1.ClusterRole) int {
		return strings.Compare(a.Name, b.Name)
	})
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("reading the selector of ClusterRole %s: %w", role.Name, err)
		}
		for _, other := range byName {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				known := func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }
				if !slices.ContainsFunc(rules, known) {
					rules = append(rules, *rule.DeepCopy())
				}
			}
		}
	}
	return rules, nil
}
