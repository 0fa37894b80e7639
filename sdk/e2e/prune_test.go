package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// withExtraChildren applies all but its first child only if the site wants extra children.
func withExtraChildren(_ context.Context, p *pass) error {
	sdk.Apply(p, configMap(p.Object, "first"))
	if p.Object.Spec.Extra {
		sdk.Apply(p, configMap(p.Object, "second"))
		sdk.Apply(p, named(&corev1.Secret{}, "third"))
		d := deployment(p.Object)
		d.Name = "fourth"
		sdk.Apply(p, d, sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
	}
	return nil
}

func TestUnplannedChildrenArePruned(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(withExtraChildren))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = false })
	for _, o := range []client.Object{
		named(&corev1.ConfigMap{}, "second"), named(&corev1.Secret{}, "third"),
	} {
		k.Eventually(o, testkit.Gone())
	}
	converged(k, running, s)
	want := []string{ // the last child first
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"delete deployments.apps fourth -> 200",
		"delete secrets third -> 200",
		"delete configmaps second -> 200",
	}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	k.Get(named(&corev1.ConfigMap{}, "first"))
}

// A child may need children that were created before it, so that the last one is deleted first, regardless of kind and name.
func TestPruningIsTheReverseOfCreation(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		if p.Object.Spec.Extra {
			sdk.Apply(p, named(&corev1.Secret{}, "z"))
			sdk.Apply(p, configMap(p.Object, "a"))
		}
		return nil
	})
	op.Owns = []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}
	running := start(k, op)
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = false })
	k.Eventually(named(&corev1.Secret{}, "z"), testkit.Gone())
	converged(k, running, s)
	want := []string{
		"patch sites.e2e.homeostat.dev/status a -> 200", "delete configmaps a -> 200", "delete secrets z -> 200",
	}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestChildrenAreKeptWhileThePlanIsIncomplete(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"wait":      sdk.Wait("NotYet", "something is missing"),
		"invalid":   sdk.Invalid("Wrong", "the text is wrong"),
		"transient": errors.New("a bad day"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(func(ctx context.Context, p *pass) error {
				if p.Object.Spec.Text == "fail" {
					sdk.Apply(p, configMap(p.Object, "first"))
					return failure
				}
				return withExtraChildren(ctx, p)
			}))
			s := newSite("a")
			s.Spec.Extra = true
			k.Apply(s)
			converged(k, running, s)
			running.Recorder().Reset()
			k.Update(s, func() {
				s.Spec.Extra = false
				s.Spec.Text = "fail"
			})
			k.Eventually(s, testkit.Match("reported", func(client.Object) bool {
				return s.Status.ObservedGeneration == s.Generation
			}))
			requireUnchanged(t, k, running, get(k, named(&corev1.ConfigMap{}, "second")))
			for _, request := range sent(k, running) {
				if !strings.HasPrefix(request, "patch sites") {
					t.Errorf("request on a child of an incomplete plan: %s", request)
				}
			}
		})
	}
}

func get[T client.Object](k *testkit.K, o T) T {
	k.Get(o)
	return o
}

func TestForeignObjectsAreNeverPruned(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(withExtraChildren))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	label := map[string]string{sdk.ManagedByLabel: operatorName, "color": "blue"}
	sibling := newSite("sibling")
	sibling.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
	k.Apply(sibling)
	owners := map[string][]metav1.OwnerReference{
		"ownerless":  nil,
		"not-led":    ownerReference(s, "e2e.homeostat.dev/v1", "Site", false),
		"siblings":   ownerReference(sibling, "e2e.homeostat.dev/v1", "Site", true),
		"other-kind": ownerReference(existingOwner(k, s.Name+"-boss"), "v1", "ConfigMap", true),
	}
	for name, refs := range owners {
		c := named(&corev1.ConfigMap{}, name)
		c.Labels = label
		c.OwnerReferences = refs
		k.Apply(c)
	}
	account := named(&corev1.ServiceAccount{}, "kind-not-owned")
	account.OwnerReferences = ownerReference(s, "e2e.homeostat.dev/v1", "Site", true)
	k.Apply(account)
	ours := named(&corev1.ConfigMap{}, "ours") // shows that pruning happens
	ours.Labels = label
	ours.OwnerReferences = ownerReference(s, "e2e.homeostat.dev/v1", "Site", true)
	k.Apply(ours)

	k.Eventually(ours, testkit.Gone())
	k.Update(s, func() { s.Spec.Text = "again" })
	k.Eventually(s, testkit.Match("reported", func(client.Object) bool { return s.Status.ObservedGeneration == s.Generation }))
	waitIdle(k, running, quietPeriod)
	for name := range owners {
		k.Get(named(&corev1.ConfigMap{}, name))
	}
	k.Get(account)
}

// The child is replaced by a foreign object of the same name between the operator's read and its deletion.
func TestReplacedChildIsNotDeleted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	g := newBarrier()
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		if !p.Object.Spec.Extra && p.Object.Spec.Text == "less" {
			g.arrive()
		}
		return withExtraChildren(ctx, p)
	}))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	k.Update(s, func() {
		s.Spec.Extra = false
		s.Spec.Text = "less"
	})
	g.waitReached(k)
	c := named(&corev1.ConfigMap{}, "second")
	k.Delete(c)
	c = named(&corev1.ConfigMap{}, "second")
	k.Apply(c)
	g.open()
	k.Eventually(named(&corev1.Secret{}, "third"), testkit.Gone())
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionTrue))
	waitIdle(k, running, quietPeriod)
	if again := get(k, named(&corev1.ConfigMap{}, "second")); again.UID != c.UID {
		t.Error("the operator deleted another object than the one it read")
	}
}
