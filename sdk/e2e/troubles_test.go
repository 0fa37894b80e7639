package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A child that the API server refuses does not keep its siblings from being made, and is tried again.
func TestRejectedChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Without("a child is not allowed", testkit.Forbidden))
	var refusals atomic.Int64
	refusals.Store(2)
	f := &faults{
		counted: func(req *http.Request) bool { return isApply(req, "secrets") },
		before: func(req *http.Request) (*http.Response, error) {
			if isApply(req, "secrets") && refusals.Add(-1) >= 0 {
				return answer(req, metav1.Status{
					Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "exceeded quota",
				}), nil
			}
			return nil, nil //nolint:nilnil // the server answers
		},
	}
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, named(&corev1.Secret{}, "refused"))
		sdk.Apply(p, configMap(p.Object, "sibling"))
		return nil
	})
	op.Resync = 20 * time.Millisecond // to show that it makes no request before its time
	start(k, op, f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "SecretRejected"),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "SecretRejected"))
	k.Eventually(named(&corev1.ConfigMap{}, "sibling"), testkit.Exists())
	k.Eventually(s, testkit.Ready())
	atLeastApart(t, gaps(f.times()), 800*time.Millisecond, 1600*time.Millisecond)
}

// Two managers want different values of one field. The writes of ours are bounded, it names the other, and it goes on as
// soon as the other gives in.
func TestContendedField(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var rival atomic.Bool
	rival.Store(true)
	f := &faults{counted: func(req *http.Request) bool { return isApply(req, "configmaps") }}
	running := start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	go revert(k, s.Name, &rival)
	k.Eventually(s, testkit.Condition("Contended", metav1.ConditionTrue),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Contended"))
	if _, _, message := condition(s, "Contended"); !strings.Contains(message, "ConfigMap a") ||
		!strings.Contains(message, "rival-controller") {
		t.Errorf("the message %q does not name the child and the rival", message)
	}
	first := len(f.times())
	if first > 6 {
		t.Errorf("%d applies before the fight was noticed", first)
	}
	k.Consistently(s, time.Second, testkit.Condition("Contended", metav1.ConditionTrue))
	if n := len(f.times()) - first; n > 2 {
		t.Errorf("%d more applies within a second of the fight", n)
	}
	rival.Store(false)
	k.Eventually(s, testkit.Ready(), testkit.Match("at peace", func(client.Object) bool {
		return conditions.Get(s, "Contended") == nil
	}))
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), testkit.Match("blue", func(c client.Object) bool {
		return c.GetLabels()["color"] == "blue" // the rival may have been in the middle of a last revert
	}))
}

// revert plays a controller that wants the color to be red.
func revert(k *testkit.K, name string, while *atomic.Bool) {
	c := named(&corev1.ConfigMap{}, name)
	c.Namespace = k.Namespace
	for while.Load() && k.Context().Err() == nil {
		if k.Client.Get(k.Context(), client.ObjectKeyFromObject(c), c) == nil && c.Labels["color"] == "blue" {
			_ = patch(k, c, types.MergePatchType, `{"metadata":{"labels":{"color":"red"}}}`,
				client.FieldOwner("rival-controller"))
		}
		select {
		case <-k.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A spec that changes often is no fight: each change is another intent.
func TestManyChangesAreNoFight(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(oneChild))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	c := named(&corev1.ConfigMap{}, s.Name)
	for _, want := range []string{"one", "two", "one", "two", "three", "four", "five", "six"} {
		k.Update(s, func() { s.Spec.Text = want })
		k.Eventually(c, text(want))
		if conditions.Get(s, "Contended") != nil {
			t.Fatal("the operator sees a fight where there is none")
		}
	}
	k.Eventually(s, testkit.Ready())
}
