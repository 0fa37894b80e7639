package copyrator_test

import (
	"context"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// sourcesNamespace has the sources of all runs. Each run observes its own namespace and this one; its copies are in its
// own.
const sourcesNamespace = "copyrator-sources"

// withSourcesNamespace restricts the operator to the namespace of a run and that of the sources.
type withSourcesNamespace struct{ testkit.Runnable }

// SetupInNamespaces implements testkit.Runnable.
func (o withSourcesNamespace) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return o.Runnable.SetupInNamespaces(mgr, append(namespaces, sourcesNamespace)...)
}

func exploredOperator() testkit.Runnable {
	return withSourcesNamespace{copyrator.New(copyrator.Options{Namespace: "operators", Secrets: true})}
}

// createSources creates the namespace of the sources and their permissions once for all runs, and the sources of this run.
func createSources(k *testkit.K) {
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sourcesNamespace}},
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: sourcesNamespace, Name: "read"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"flant.com"}, Resources: []string{"copyrators"}, Verbs: []string{"list", "watch"}},
			},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: sourcesNamespace, Name: "read"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts"}},
		},
		grantedSource("explored-one", map[string]string{"explored": "yes", "more": "label"},
			map[string]string{"a": "1", "b": "2", "c": "3"}),
		grantedSource("explored-two", map[string]string{"explored": "yes"}, map[string]string{"a.local": "1"}),
		grantedSource("one-"+k.Namespace, map[string]string{"run": k.Namespace}, map[string]string{"a": "1"}),
		grantedSource("two-"+k.Namespace, map[string]string{"run": k.Namespace, "more": "yes"}, map[string]string{"a": "1"}),
	} {
		if err := k.Client.Create(k.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			panic(err) // this ends the run
		}
	}
	k.Wait("the right to read the sources", func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:any:any", Groups: []string{"system:serviceaccounts"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: sourcesNamespace, Verb: "list", Group: "flant.com", Resource: "copyrators",
			},
		}}
		if err := k.Client.Create(ctx, review); err != nil || !review.Status.Allowed {
			return fmt.Errorf("allowed: %v, %w", review.Status.Allowed, err)
		}
		return nil
	})
}

// grantedSource returns a source that every rule may read.
func grantedSource(name string, labels, data map[string]string) *corev1.ConfigMap {
	labels["copyrator.flant.com/shared"] = "yes"
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sourcesNamespace, Name: name, Labels: labels,
			Annotations: map[string]string{"copyrator.flant.com/allow-from": "*"},
		},
		Data: data,
	}
}

// All faults at all relevant places, with two replicas and a leader that crashes. The outcome must be that of a run
// without a fault. With -short only some plans run.
func TestFaults(t *testing.T) {
	t.Parallel()
	rule := &v1.CopyratorRule{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	change := func(k *testkit.K, f func(r *v1.CopyratorRule)) {
		r := rule.DeepCopy()
		k.Update(r, func() { f(r) })
	}
	chaos.Sweep(t, exploredOperator(), chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) {
			r := rule.DeepCopy()
			r.Rule = v1.Rule{
				RuleType: "configmap", Selector: v1.Selector{Labels: map[string]string{"run": k.Namespace}},
				Namespaces: []string{sourcesNamespace}, TargetNamespaces: []string{k.Namespace},
			}
			k.Apply(r)
		}},
		{Name: "a source changes", Do: func(k *testkit.K) {
			o := configMapRef(sourcesNamespace, "one-"+k.Namespace)
			k.Update(o, func() { o.Data = map[string]string{"b": "2"} })
		}},
		{Name: "add a label and leave out an entry", Do: func(k *testkit.K) {
			change(k, func(r *v1.CopyratorRule) {
				r.CopyLabels.Add = map[string]string{"copyrator.flant.com/copied": "yes"}
				r.DataKeys.Exclude = []string{"a"}
			})
		}},
		{Name: "copy less", Do: func(k *testkit.K) {
			change(k, func(r *v1.CopyratorRule) { r.Selector.Labels["more"] = "yes" })
		}},
	}, chaos.All, chaos.BeforeRun(createSources))
}

// The final state depends on the last rule only. The seed makes the test deterministic; the flag -testkit.seed tries
// others.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	steps := 30
	if testing.Short() { // all of them take a minute
		steps = 10
	}
	gen.Explore(t, exploredOperator(), gen.From("config/crd/flant.com_copyrators.yaml", "testdata/explored.yaml"),
		gen.BeforeRun(createSources), gen.Seed(1), gen.Sequences(1), gen.Steps(steps))
}
