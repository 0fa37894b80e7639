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

// retaining returns a reconcile function with two ConfigMaps: "left" is retained if the site says so, and the next site of
// the name adopts it.
func retaining(opts ...sdk.ApplyOption) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		mine := func(o client.Object) bool { return o.GetLabels()[sdk.ManagedByLabel] == operatorName }
		all := append([]sdk.ApplyOption{sdk.AdoptIf(mine)}, opts...)
		if p.Object.Spec.Extra {
			all = append(all, sdk.Retain())
		}
		if p.Object.Spec.Text != "none" {
			sdk.Apply(p, configMap(p.Object, "left"), all...)
		}
		sdk.Apply(p, configMap(p.Object, "deleted"))
		return nil
	}
}

// retained returns a site that retains its ConfigMap.
func retained() *site.Site {
	s := newSite("a")
	s.Spec.Extra = true
	return s
}

// A retained child survives its parent, with every deletion policy and with or without a running operator. The next parent
// of the name adopts it.
func TestRetain(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		for _, runs := range []bool{true, false} {
			for how, opts := range map[string][]sdk.ApplyOption{"applied": nil, "create-only": {sdk.CreateOnly()}} {
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
	running := start(k, operator(retaining(opts...)))
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
		k.Eventually(named(&corev1.ConfigMap{}, "deleted"), testkit.Gone())
	}
	k.Consistently(child, observationPeriod, testkit.Match("the same", func(c *corev1.ConfigMap) bool {
		return c.UID == uid && c.DeletionTimestamp == nil && c.Data["text"] == "hello"
	}))
	if policy == metav1.DeletePropagationOrphan { // the retained child is not distinguishable from other orphans then
		return
	}
	if !runs {
		running = start(k, operator(retaining(opts...)))
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
		t.Errorf("it is another object, or is not adopted: %+v, %v", child.ObjectMeta, child.Data)
	}
}

// A retained child stays when it leaves the plan. Without Retain it is deleted with its parent again.
func TestRetainIsRevoked(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sdk.ApplyOption{"applied": nil, "create-only": {sdk.CreateOnly()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(retaining(opts...)))
			s, child := newSite("a"), named(&corev1.ConfigMap{}, "left")
			k.Apply(s)
			converged(k, running, s)
			k.Get(child)
			uid := child.UID
			// Another manager that applied the reference, too, is a co-owner of that field.
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
			requireUnchanged(t, k, running, child)
			k.Update(s, func() {
				s.Spec.Text = "hello"
				s.Spec.Extra = false
			})
			k.Eventually(child, testkit.Match("controlled", func(c *corev1.ConfigMap) bool { return metav1.IsControlledBy(c, s) }))
			k.Delete(s)
			k.Eventually(child, testkit.Gone())
		})
	}
}

// Retain is rejected for cross-namespace children, which have no owner reference.
func TestRetainInOtherNamespaceIsRejected(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	startInTwoNamespaces(k, far, func(_ context.Context, p *pass) error {
		c := configMap(p.Object, "left")
		c.Namespace = far.Namespace
		sdk.Apply(p, c, sdk.Retain())
		return nil
	})
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
	if _, _, message := condition(s, conditions.Ready); message == "" {
		t.Error("the status does not name the reason")
	}
	k.Eventually(configMapIn(far, "left"), testkit.Gone())
}
