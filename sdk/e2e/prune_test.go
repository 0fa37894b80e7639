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

// extras applies its second to last children only if the site asks for them.
func extras(_ context.Context, p *pass) error {
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
	running := start(k, operator(extras))
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
	want := []string{ // the last first
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

// What was made last may need what was made before, so it goes first, whatever the kinds and names are.
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
				return extras(ctx, p)
			}))
			s := newSite("a")
			s.Spec.Extra = true
			k.Apply(s)
			converged(k, running, s)
			running.Recorder().Reset()
			k.Update(s, func() { s.Spec.Extra, s.Spec.Text = false, "fail" })
			k.Eventually(s, testkit.Match("told", func(client.Object) bool {
				return s.Status.ObservedGeneration == s.Generation
			}))
			untouched(t, k, running, get(k, named(&corev1.ConfigMap{}, "second")))
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

func TestOthersObjectsAreNeverPruned(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(extras))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	label := map[string]string{sdk.ManagedByLabel: operatorName, "color": "blue"}
	sibling := newSite("sibling")
	sibling.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
	k.Apply(sibling)
	owners := map[string][]metav1.OwnerReference{
		"nobodys":    nil,
		"not-led":    reference(s, "e2e.homeostat.dev/v1", "Site", false),
		"siblings":   reference(sibling, "e2e.homeostat.dev/v1", "Site", true),
		"other-kind": reference(anchor(k, s.Name+"-boss"), "v1", "ConfigMap", true),
	}
	for name, refs := range owners {
		c := named(&corev1.ConfigMap{}, name)
		c.Labels, c.OwnerReferences = label, refs
		k.Apply(c)
	}
	account := named(&corev1.ServiceAccount{}, "kind-not-owned")
	account.OwnerReferences = reference(s, "e2e.homeostat.dev/v1", "Site", true)
	k.Apply(account)
	ours := named(&corev1.ConfigMap{}, "ours") // shows that pruning is at work
	ours.Labels, ours.OwnerReferences = label, reference(s, "e2e.homeostat.dev/v1", "Site", true)
	k.Apply(ours)

	k.Eventually(ours, testkit.Gone())
	k.Update(s, func() { s.Spec.Text = "again" })
	k.Eventually(s, testkit.Match("told", func(client.Object) bool { return s.Status.ObservedGeneration == s.Generation }))
	quiet(k, running, still)
	for name := range owners {
		k.Get(named(&corev1.ConfigMap{}, name))
	}
	k.Get(account)
}

// Between the operator's look and its deletion the child is replaced by somebody's object of the same name.
func TestReplacedChildIsNotDeleted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	g := newGate()
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		if !p.Object.Spec.Extra && p.Object.Spec.Text == "less" {
			g.pass()
		}
		return extras(ctx, p)
	}))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	k.Update(s, func() { s.Spec.Extra, s.Spec.Text = false, "less" })
	g.reached(k)
	c := named(&corev1.ConfigMap{}, "second")
	k.Delete(c)
	c = named(&corev1.ConfigMap{}, "second")
	k.Apply(c)
	g.open()
	k.Eventually(named(&corev1.Secret{}, "third"), testkit.Gone())
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionTrue))
	quiet(k, running, still)
	if again := get(k, named(&corev1.ConfigMap{}, "second")); again.UID != c.UID {
		t.Error("the operator deleted an object that is not the one it saw")
	}
}
