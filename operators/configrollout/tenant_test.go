package configrollout_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// tenant is the user eve. She has the role edit in her namespaces and no permission elsewhere. The tests with a tenant show
// that the operator does nothing for her that she may not do herself, and that other tenants notice nothing.
type tenant struct {
	client.Client

	t          *testing.T
	k          *testkit.K // of the administrator
	namespaces []string
}

// newTenant creates that number of namespaces for eve. They are not that of the test, which belongs to another tenant.
func newTenant(t *testing.T, k *testkit.K, namespaces int) *tenant {
	t.Helper()
	e := &tenant{t: t, k: k}
	cfg := rest.CopyConfig(k.Config)
	user := "eve-" + k.Namespace
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	for i := range namespaces {
		name := fmt.Sprintf("%s-eve-%d", k.Namespace, i)
		e.namespaces = append(e.namespaces, name)
		k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		k.Apply(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "eve"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	var err error
	if e.Client, err = client.New(cfg, client.Options{Scheme: k.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	k.Wait("the permissions of eve", func(ctx context.Context) error { // the API server has a cache of them
		for _, name := range e.namespaces {
			d := deployment("probe", "conf")
			d.Namespace = name
			if err := e.Create(ctx, d, client.DryRunAll); err != nil {
				return err
			}
		}
		return nil
	})
	if err := e.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(k.Namespace)); !apierrors.IsForbidden(err) {
		t.Fatalf("eve may read the namespace of another tenant: %v", err)
	}
	return e
}

// start runs the operator for the namespaces of both tenants. It acts as administrator, because testkit grants the roles of
// an operator in one namespace only.
func (e *tenant) start(change ...func(*configrollout.Options)) *testkit.Instance {
	e.t.Helper()
	op := newOperator(e.t, change...)
	return e.k.Start(func(mgr manager.Manager) error {
		return op.SetupInNamespaces(mgr, append([]string{e.k.Namespace}, e.namespaces...)...)
	}, testkit.WithConfig(e.k.Config))
}

// create creates an object as eve, in one of her namespaces.
func (e *tenant) create(namespace int, o client.Object) {
	e.t.Helper()
	o.SetNamespace(e.namespaces[namespace])
	if err := e.Create(e.t.Context(), o); err != nil {
		e.t.Fatalf("eve creates %T %s: %v", o, o.GetName(), err)
	}
}

// adopt creates workloads as eve, in one of her namespaces, and waits until the operator has recorded them.
func (e *tenant) adopt(namespace int, workloads ...client.Object) {
	e.t.Helper()
	for _, o := range workloads {
		e.create(namespace, o)
	}
	for _, o := range workloads {
		e.k.Eventually(o, adopted())
	}
}

// update changes an object as eve.
func (e *tenant) update(o client.Object, change func()) {
	e.t.Helper()
	e.k.Wait("an update by eve", func(ctx context.Context) error {
		if err := e.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return e.Update(ctx, o)
	})
}

// change changes a ConfigMap as eve.
func (e *tenant) change(namespace int, name string, data ...string) {
	e.t.Helper()
	cm := configMap(name)
	cm.Namespace = e.namespaces[namespace]
	e.update(cm, func() { maps.Copy(cm.Data, configMap("", data...).Data) })
}

// stuck returns a Deployment whose pods never start, with a deadline of 68 years.
func stuck(name, configMap string, annotations ...string) *appsv1.Deployment {
	d := deployment(name, configMap, annotations...)
	d.Spec.ProgressDeadlineSeconds = new(int32(2147483646))
	d.Spec.Template.Spec.NodeSelector = map[string]string{"no": "node"}
	return d
}

// Ten rollouts of one tenant that never end, in five namespaces, take all slots. They do not take them from other tenants
// for longer than the maximal deadline.
func TestTenantWithStuckRollouts(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	e := newTenant(t, k, 5)
	e.start(func(o *configrollout.Options) {
		o.RolloutDeadline = time.Second
		o.MaxRolloutDeadline = 3 * time.Second
	})
	k.Apply(configMap("conf", "a", "1"))
	mine := deployment("mine", "conf")
	adopt(k, mine)
	var hers []*appsv1.Deployment
	for i := range e.namespaces {
		e.create(i, configMap("conf", "a", "1"))
		for _, name := range []string{"a", "b", "c"} {
			d := stuck(name, "conf", "priority", "1000", "quiet-period", "0s", "on-failure", "Continue")
			e.adopt(i, d)
			hers = append(hers, d)
		}
	}
	for i := range e.namespaces {
		e.change(i, "conf", "a", "2")
	}
	k.Wait("ten rollouts of eve", func(ctx context.Context) error {
		rolling := 0
		for _, d := range hers {
			if err := k.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				return err
			}
			if digestOf(d) != "" {
				rolling++
			}
		}
		if rolling < 10 {
			return fmt.Errorf("there are %d", rolling)
		}
		return nil
	})
	change(k, "conf", "a", "2")
	k.Eventually(mine, rolledFrom(""), result("Completed"))
}

// A Deployment whose own deadline is 68 years fails after the maximal deadline of the operator.
func TestMaxRolloutDeadline(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k, oneAtATime, func(o *configrollout.Options) {
		o.RolloutDeadline = time.Second
		o.MaxRolloutDeadline = time.Second
	})
	k.Apply(configMap("conf", "a", "1"))
	k.Apply(configMap("other", "a", "1"))
	broken, next := stuck("broken", "conf"), deployment("next", "other")
	k.Apply(broken)
	k.Eventually(broken, adopted())
	adopt(k, next)
	change(k, "conf", "a", "2")
	k.Eventually(broken, rolledFrom(""))
	change(k, "other", "a", "2")
	k.Eventually(broken, result("Failed"), state("RolloutFailed"))
	k.Eventually(next, rolledFrom(""), result("Completed"))
}

// The operator does nothing in namespaces of Kubernetes, also for workloads with its annotations.
func TestReservedNamespaces(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	reserved := "kube-" + k.Namespace
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: reserved}})
	for _, namespace := range []string{k.Namespace, reserved} {
		cm, d := configMap("conf", "a", "1"), deployment("a", "conf")
		cm.Namespace = namespace
		d.Namespace = namespace
		k.Apply(cm)
		k.Apply(d)
	}
	program := newOperator(t)
	op := k.Start(func(mgr manager.Manager) error {
		return program.SetupInNamespaces(mgr, k.Namespace, reserved)
	}, testkit.WithConfig(k.Config))
	k.Eventually(deploymentRef("a"), adopted())
	waitIdle(k, op)
	for _, r := range writes(op) {
		if r.Namespace == reserved {
			t.Errorf("it sent %v", r)
		}
	}
	var out strings.Builder
	if err := program.DryRun(t.Context(), k.Config, []string{k.Namespace, reserved}, &out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), reserved) {
		t.Errorf("the dry run prints %s", out.String())
	}
}

// The tests of this package run with the policy on the account. Its token can start a rollout, and cannot change the image.
func TestAccountIsFenced(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	as, err := client.New(k.ServiceAccount(""), client.Options{Scheme: k.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	d := deployment("a", "conf")
	k.Apply(d)
	rollout := `{"spec":{"template":{"metadata":{"annotations":{"rollout.homeostat.dev/config-digest":"x"}}}}}`
	if err := as.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(rollout))); err != nil {
		t.Errorf("a rollout is refused: %v", err)
	}
	image := `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`
	k.Wait("a refusal", func(ctx context.Context) error { // the API server has a cache of policies
		err := as.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(image)), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "configrollout changes nothing in the spec of pods") {
			return fmt.Errorf("the change of the image: %w", err)
		}
		return nil
	})
}
