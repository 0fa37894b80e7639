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

// A child that the API server rejects does not block its siblings, and is retried.
func TestRejectedChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("a child is forbidden", testkit.Forbidden))
	var rejections atomic.Int64
	rejections.Store(2)
	f := &faults{
		counted: func(req *http.Request) bool { return isApply(req, "secrets") },
		before: func(req *http.Request) (*http.Response, error) {
			if isApply(req, "secrets") && rejections.Add(-1) >= 0 {
				return response(req, metav1.Status{
					Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "exceeded quota",
				}), nil
			}
			return nil, nil //nolint:nilnil // no response: the request goes to the server
		},
	}
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, named(&corev1.Secret{}, "rejected"))
		sdk.Apply(p, configMap(p.Object, "sibling"))
		return nil
	})
	op.Resync = 20 * time.Millisecond // shows that no request is sent before the backoff ends
	start(k, op, f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "SecretRejected"),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "SecretRejected"))
	k.Eventually(named(&corev1.ConfigMap{}, "sibling"), testkit.Exists())
	k.Eventually(s, testkit.Ready())
	atLeastApart(t, gaps(f.times()), 800*time.Millisecond, 1600*time.Millisecond)
}

// Two managers apply different values to one field. Our operator limits its writes, names the other manager, and continues
// as soon as the other one stops.
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
	go revertColor(k, s.Name, &rival)
	k.Eventually(s, testkit.Condition("Contended", metav1.ConditionTrue),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Contended"))
	if _, _, message := condition(s, "Contended"); !strings.Contains(message, "ConfigMap a") ||
		!strings.Contains(message, "rival-controller") {
		t.Errorf("the message %q does not name the child and the rival", message)
	}
	first := len(f.times())
	if first > 6 {
		t.Errorf("%d applies before the contention was detected", first)
	}
	k.Consistently(s, time.Second, testkit.Condition("Contended", metav1.ConditionTrue))
	if n := len(f.times()) - first; n > 2 {
		t.Errorf("%d more applies within a second of contention", n)
	}
	rival.Store(false)
	k.Eventually(s, testkit.Ready(), testkit.Match("no contention", func(client.Object) bool {
		return conditions.Get(s, "Contended") == nil
	}))
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), testkit.Match("blue", func(c client.Object) bool {
		return c.GetLabels()["color"] == "blue" // the rival may have reverted once more
	}))
}

// revertColor reverts the color to red, as a controller with another intent would.
func revertColor(k *testkit.K, name string, while *atomic.Bool) {
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

// Frequent changes of the spec are no contention: each change is a new intent.
func TestSpecChangesAreNoContention(t *testing.T) {
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
			t.Fatal("the operator reports contention without a rival")
		}
	}
	k.Eventually(s, testkit.Ready())
}
