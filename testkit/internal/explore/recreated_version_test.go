package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// An object is recreated in the version in which the user wrote it, although the history has it in the preferred one, v2.
func TestRecreatedInFormerVersion(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(*testkit.K){
		"Applied": func(k *testkit.K) { k.Apply(newLamp("bright")) },
		"Updated": func(k *testkit.K) {
			lamp := newLamp("dim")
			k.Apply(lamp)
			k.Update(lamp, func() { _ = unstructured.SetNestedField(lamp.Object, "bright", "spec", "level") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, explore.Options{
				Opener: kitadapter.Open, Name: "lamps", Seed: 1, Faults: []string{"recreated"},
				Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
					return k.Start(setupLamps, append(opts, testkit.WithConfig(k.Config))...)
				}),
				Steps: []explore.Step{kitadapter.Step("create", create)},
			})
			if failures := violationsOf(r); len(failures) > 0 {
				t.Errorf("violations %v of a correct operator\n%s", failures, text(t, r))
			}
			tried := slices.ContainsFunc(r.Runs, func(r report.Run) bool {
				return strings.HasPrefix(r.Name, "recreated/lamps") && r.Outcome == report.Passed
			})
			if !tried {
				t.Errorf("no lamp was recreated\n%s", text(t, r))
			}
		})
	}
}

var lampKind = schema.GroupVersionKind{Group: "explore.homeostat.dev", Version: "v1", Kind: "Lamp"}

func newLamp(level string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"level": level}}}
	u.SetGroupVersionKind(lampKind)
	u.SetName("desk")
	return u
}

// setupLamps sets up an operator that copies the level of each Lamp into a ConfigMap.
func setupLamps(mgr manager.Manager) error {
	lamp := &unstructured.Unstructured{}
	lamp.SetGroupVersionKind(lampKind)
	c := mgr.GetClient()
	apply := func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		owner := lamp.DeepCopy()
		if err := c.Get(ctx, req.NamespacedName, owner); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		level, _, _ := unstructured.NestedString(owner.Object, "spec", "level")
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
		_, err := controllerutil.CreateOrUpdate(ctx, c, cm, func() error {
			cm.Data = map[string]string{"level": level}
			return ctrl.SetControllerReference(owner, cm, c.Scheme())
		})
		return reconcile.Result{}, err
	}
	return ctrl.NewControllerManagedBy(mgr).For(lamp).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(apply))
}
