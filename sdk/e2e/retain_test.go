package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// left is a ConfigMap that outlives its site while that says so, and is taken over by the next one.
func left(opts ...sdk.ApplyOption) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		mine := func(o client.Object) bool { return o.GetLabels()[sdk.ManagedByLabel] == operatorName }
		all := append([]sdk.ApplyOption{sdk.AdoptIf(mine)}, opts...)
		if p.Object.Spec.Extra {
			all = append(all, sdk.Retain())
		}
		if p.Object.Spec.Text != "none" {
			sdk.Apply(p, configMap(p.Object, "left"), all...)
		}
		sdk.Apply(p, configMap(p.Object, "goes"))
		return nil
	}
}

// retained is a site whose ConfigMap is kept.
func retained() *site.Site {
	s := newSite("a")
	s.Spec.Extra = true
	return s
}

// However an object is deleted, and whether its operator runs: what is retained stays, and is the next one's.
func TestRetain(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		for _, runs := range []bool{true, false} {
			for how, opts := range map[string][]sdk.ApplyOption{"applied": nil, "made once": {sdk.CreateOnly()}} {
				name := string(policy) + " " + how
				if !runs {
					name += " without the operator"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					testRetain(t, policy, runs, opts)
				})
			}
		}
	}
}

func testRetain(t *testing.T, policy metav1.DeletionPropagation, runs bool, opts []sdk.ApplyOption) {
	t.Helper()
	k := testkit.New(t)
	running := start(k, operator(left(opts...)))
	former, child := retained(), named(&corev1.ConfigMap{}, "left")
	k.Apply(former)
	converged(k, running, former)
	if k.Get(child); len(child.OwnerReferences) > 0 || len(former.Finalizers) > 0 {
		t.Errorf("owners %v, finalizers of the parent %v", child.OwnerReferences, former.Finalizers)
	}
	uid := child.UID
	if !runs {
		running.Stop()
	}
	if err := k.Client.Delete(k.Context(), former, client.PropagationPolicy(policy)); err != nil {
		t.Fatal(err)
	}
	k.Eventually(former, testkit.Gone())
	if policy != metav1.DeletePropagationOrphan {
		k.Eventually(named(&corev1.ConfigMap{}, "goes"), testkit.Gone())
	}
	k.Consistently(child, window, testkit.Match("the same", func(c *corev1.ConfigMap) bool {
		return c.UID == uid && c.DeletionTimestamp == nil && c.Data["text"] == "hello"
	}))
	if policy == metav1.DeletePropagationOrphan { // which leaves that one for somebody to decide about
		return
	}
	if !runs {
		running = start(k, operator(left(opts...)))
	}
	s := retained()
	s.Spec.Text = "other"
	k.Apply(s)
	converged(k, running, s)
	want := "other"
	if len(opts) > 0 {
		want = "hello"
	}
	if k.Get(child); child.UID != uid || child.Data["text"] != want || len(child.OwnerReferences) > 0 {
		t.Errorf("it is not the same, or not ours: %+v, %v", child.ObjectMeta, child.Data)
	}
}

// What is retained stays when the plan no longer has it, and goes with its parent once it is retained no longer.
func TestRetainAndNoLonger(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sdk.ApplyOption{"applied": nil, "made once": {sdk.CreateOnly()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(left(opts...)))
			s, child := newSite("a"), named(&corev1.ConfigMap{}, "left")
			k.Apply(s)
			converged(k, running, s)
			k.Get(child)
			uid := child.UID
			// Somebody else who applied the reference, too, owns it as much as we do.
			also := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"ownerReferences":[{"uid":%q,"name":"a",
				"apiVersion":"e2e.homeostat.dev/v1","kind":"Site","controller":true,"blockOwnerDeletion":true}]}}`, s.UID)
			patch := client.RawPatch(types.ApplyPatchType, []byte(also))
			if err := k.Client.Patch(k.Context(), child, patch, client.FieldOwner("restore"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			for _, retain := range []bool{true, false, true, false} {
				k.Update(s, func() { s.Spec.Extra = retain })
				converged(k, running, s)
				if k.Get(child); child.UID != uid || metav1.IsControlledBy(child, s) == retain {
					t.Fatalf("retained: %v, and the owners are %v", retain, child.OwnerReferences)
				}
			}
			k.Update(s, func() { s.Spec.Extra = true })
			converged(k, running, s)
			k.Get(child)
			k.Update(s, func() { s.Spec.Text = "none" })
			converged(k, running, s)
			untouched(t, k, running, child)
			k.Update(s, func() { s.Spec.Text, s.Spec.Extra = "hello", false })
			k.Eventually(child, testkit.Match("bound", func(c *corev1.ConfigMap) bool { return metav1.IsControlledBy(c, s) }))
			k.Delete(s)
			k.Eventually(child, testkit.Gone())
		})
	}
}

// What is elsewhere is nothing that an owner reference could bind in the first place.
func TestRetainElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	startFar(k, far, func(_ context.Context, p *pass) error {
		c := configMap(p.Object, "left")
		c.Namespace = far.Namespace
		sdk.Apply(p, c, sdk.Retain())
		return nil
	})
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
	if _, _, message := condition(s, conditions.Ready); message == "" {
		t.Error("the status does not say why")
	}
	k.Eventually(farther(far, "left"), testkit.Gone())
}
