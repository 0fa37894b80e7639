package e2e

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A rollout and a suspension are routine: their events are Normal, and name no internal fields. A failure is a Warning.
func TestRoutineEventsAreNormal(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		switch p.Object.Spec.Text {
		case "hibernate":
			p.SetSuspended("Hibernated", "on request")
		case "wrong":
			return sdk.Invalid("BadText", "spec.text is wrong")
		}
		d := deployment(p.Object)
		d.Spec.Template.Spec.Containers[0].Image = "app"
		if p.Object.Spec.Extra {
			d.Spec.Template.Spec.Containers[0].Image = "app:2"
		}
		sdk.Apply(p, d)
		return nil
	}))
	s, d := newSite("a"), named(&appsv1.Deployment{}, "a")
	k.Apply(s)
	ready := func() {
		k.Eventually(d, testkit.Exists())
		makeAvailable(k, d)
		k.Eventually(s, testkit.Ready())
	}
	ready()
	k.Update(s, func() { s.Spec.Extra = true })
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Progressing"))
	waitForEvent(k, s, "Progressing")
	ready()
	for text, reason := range map[string]string{"hibernate": "Hibernated", "wrong": "BadText"} {
		k.Update(s, func() { s.Spec.Text = text })
		waitForEvent(k, s, reason)
		k.Update(s, func() { s.Spec.Text = "hello" })
		k.Eventually(s, testkit.Ready())
	}
	events := &corev1.EventList{}
	if err := k.Client.List(k.Context(), events, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range events.Items {
		got[e.Type+" "+e.Reason] = e.Message
	}
	want := map[string]string{
		"Normal Ready":       "the object is ready",
		"Normal Progressing": "Deployment a: the last change is not processed yet",
		"Normal Hibernated":  "on request",
		"Warning BadText":    "spec.text is wrong",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
