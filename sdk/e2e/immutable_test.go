package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// withImmutableChild returns a reconcile function with an immutable child and a mutable sibling.
func withImmutableChild(policy ...sdk.ApplyOption) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		c := configMap(p.Object, "frozen")
		c.Immutable = new(true)
		sdk.Apply(p, c, policy...)
		sdk.Apply(p, configMap(p.Object, "sibling"))
		return nil
	}
}

func text(want string) testkit.Check {
	return testkit.Match("text "+want, func(c *corev1.ConfigMap) bool { return c.Data["text"] == want })
}

func TestImmutableFieldIsReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(withImmutableChild()))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	c := get(k, named(&corev1.ConfigMap{}, "frozen"))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ImmutableField"),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ImmutableField"))
	want := "ConfigMap frozen cannot be changed in place: the API server does not allow a change of data"
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	k.Eventually(named(&corev1.ConfigMap{}, "sibling"), text("new"))
	requireUnchanged(t, k, running, c)
	k.Update(s, func() { s.Spec.Text = "hello" })
	k.Eventually(s, testkit.Ready())
}

// The rejection concerns a change of that object. If the object is deleted, the new one is created immediately, without the
// backoff of the rejected change.
func TestRejectionIsForgottenWithTheChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{counted: func(req *http.Request) bool { return isApply(req, "configmaps") }}
	running := start(k, operator(withImmutableChild()), f.config(k))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	attempts := len(f.times())
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Wait("three attempts were rejected", func(context.Context) error {
		if n := len(f.times()) - attempts; n < 4 { // one apply is of the sibling
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ImmutableField"))
	c := named(&corev1.ConfigMap{}, "frozen")
	began := time.Now()
	k.Delete(c)
	k.Eventually(c, text("new"))
	k.Eventually(s, testkit.Ready())
	if took := time.Since(began); took > 2500*time.Millisecond { // the backoff before the next attempt is 3.2 s
		t.Errorf("the child came back after %v", took)
	}
}

func TestImmutableChildIsRecreated(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(withImmutableChild(sdk.OnImmutable(sdk.Recreate))))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	before := get(k, named(&corev1.ConfigMap{}, "frozen"))
	k.Update(s, func() { s.Spec.Text = "new" })
	after := named(&corev1.ConfigMap{}, "frozen")
	k.Eventually(after, text("new"))
	k.Eventually(s, testkit.Ready())
	if before.UID == after.UID {
		t.Error("the child is the same object")
	}
}

// The dependents of a StatefulSet must survive its recreation, so that it is deleted with the orphan finalizer.
func TestRecreateOrphan(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		d := deployment(p.Object)
		sdk.Apply(p, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "set"},
			Spec: appsv1.StatefulSetSpec{
				ServiceName: p.Object.Spec.Text, Selector: d.Spec.Selector, Template: d.Spec.Template,
			},
		}, sdk.OnImmutable(sdk.RecreateOrphan), sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	// The watch begins before the change, because the garbage collector may remove the finalizer immediately.
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	w, err := k.Client.Watch(ctx, &appsv1.StatefulSetList{}, client.InNamespace(k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	k.Update(s, func() { s.Spec.Text = "new" })
	for orphaned := false; !orphaned; {
		event, open := <-w.ResultChan()
		set, ok := event.Object.(*appsv1.StatefulSet)
		if !open || !ok || event.Type == watch.Deleted {
			t.Fatalf("the StatefulSet was not deleted with orphan propagation: %v %v", event, ctx.Err())
		}
		orphaned = !set.DeletionTimestamp.IsZero() && slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents)
	}
	k.Eventually(named(&appsv1.StatefulSet{}, "set"), testkit.Match("recreated", func(set *appsv1.StatefulSet) bool {
		return set.Spec.ServiceName == "new"
	}))
	k.Eventually(s, testkit.Ready())
}

// A value that the API server would reject in a new object too is no proof of immutability.
func TestBadValueNeverDeletesTheChild(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(*appsv1.Deployment){
		"bad value": func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(-1)) },
		"bad value and immutable field": func(d *appsv1.Deployment) {
			d.Spec.Replicas = new(int32(-1))
			d.Spec.Selector.MatchLabels["more"] = "x"
			d.Spec.Template.Labels["more"] = "x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.WithoutOracles("the value is bad", testkit.Refused))
			running := start(k, operator(func(_ context.Context, p *pass) error {
				d := deployment(p.Object)
				if p.Object.Spec.Text == "bad" {
					bad(d)
				}
				sdk.Apply(p, d, sdk.OnImmutable(sdk.Recreate),
					sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
				sdk.Apply(p, configMap(p.Object, "sibling"))
				return nil
			}))
			s := newSite("a")
			k.Apply(s)
			converged(k, running, s)
			d := get(k, named(&appsv1.Deployment{}, s.Name))
			k.Update(s, func() { s.Spec.Text = "bad" })
			k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "DeploymentRejected"))
			if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "spec.replicas") {
				t.Errorf("the message %q does not name the field", message)
			}
			k.Eventually(named(&corev1.ConfigMap{}, "sibling"), text("bad"))
			requireUnchanged(t, k, running, d)
			for _, r := range running.Recorder().Writes() {
				if r.Verb == "delete" {
					t.Errorf("a child was deleted: %s", r)
				}
			}
			k.Update(s, func() { s.Spec.Text = "good" })
			k.Eventually(s, testkit.Ready())
		})
	}
}

// The quota has room for the existing child but not for a second one. The child is kept, and the message names the remedy.
func TestReplacementOverQuotaIsExplained(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the quota is used up", testkit.Forbidden))
	running := start(k, operator(withImmutableChild(sdk.OnImmutable(sdk.Recreate))))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	full := corev1.ResourceList{"count/configmaps": resource.MustParse("2")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: full}}
	k.Apply(quota)
	k.UpdateStatus(quota, func() { quota.Status = corev1.ResourceQuotaStatus{Hard: full, Used: full} })
	k.Wait("the quota takes effect", func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "probe"}}
		if err := k.Client.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	c := get(k, named(&corev1.ConfigMap{}, "frozen"))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ConfigMapRejected"))
	_, _, message := condition(s, conditions.Ready)
	if !strings.HasPrefix(message, "ConfigMap frozen is refused: ") || !strings.Contains(message, "exceeded quota: full") ||
		!strings.HasSuffix(message, "if the replacement does not fit beside the present one, to delete that makes room") {
		t.Errorf("message %q", message)
	}
	requireUnchanged(t, k, running, c)
	k.Delete(c)
	k.UpdateStatus(quota, func() { quota.Status.Used = corev1.ResourceList{"count/configmaps": resource.MustParse("1")} })
	k.Eventually(named(&corev1.ConfigMap{}, "frozen"), text("new"))
	k.Eventually(s, testkit.Ready())
}

// A custom resource declares immutable fields by a validation rule.
func TestImmutableFieldOfCustomResource(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, gadget(p.Object.Name, map[string]any{"fixed": p.Object.Spec.Text}), sdk.OnImmutable(sdk.Recreate))
		return nil
	})
	op.Owns = []client.Object{gadget("", nil)}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	before := get(k, gadget(s.Name, nil))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(s, testkit.Ready())
	after := get(k, gadget(s.Name, nil))
	if after.GetUID() == before.GetUID() {
		t.Error("the child is the same object")
	}
	if diff := cmp.Diff(map[string]any{"fixed": "new", "mode": "plain"}, after.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
