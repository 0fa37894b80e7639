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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Another client deletes a child again and again. The operator limits its creations, says so, does not delay the other
// children, and continues as soon as the other client stops. A new intent starts without a delay.
func TestChildIsDeletedAgainAndAgain(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var rival atomic.Bool
	rival.Store(true)
	f := &faults{counted: func(req *http.Request) bool { return isApply(req, "configmaps") }}
	start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, p.Object.Name))
		sdk.Apply(p, named(&corev1.Secret{}, "sibling"))
		return nil
	}), f.config(k))
	s := newSite("a")
	stopped := make(chan struct{})
	go deleteAgain(k, s.Name, &rival, stopped)
	k.Apply(s)
	k.Eventually(s, testkit.Condition("Contended", metav1.ConditionTrue),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Contended"))
	if _, _, message := condition(s, "Contended"); !strings.Contains(message, "ConfigMap a is deleted again and again") {
		t.Errorf("the message %q does not say what happens", message)
	}
	k.Eventually(named(&corev1.Secret{}, "sibling"), testkit.Exists())
	first := len(f.times())
	if first > 6 {
		t.Errorf("%d creations before the deletions were noticed", first)
	}
	k.Consistently(s, time.Second, testkit.Condition("Contended", metav1.ConditionTrue))
	if n := len(f.times()) - first; n > 2 {
		t.Errorf("%d more creations within a second", n)
	}
	rival.Store(false)
	<-stopped
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("new"))
	k.Eventually(s, testkit.Ready(), testkit.Match("no contention", func(client.Object) bool {
		return conditions.Get(s, "Contended") == nil
	}))
}

// A child that leaves the plan and returns is created without the delay that it had before.
func TestRetriesEndWithTheChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var rival atomic.Bool
	rival.Store(true)
	start(k, operator(func(_ context.Context, p *pass) error {
		if p.Object.Spec.Extra {
			sdk.Apply(p, configMap(p.Object, p.Object.Name), sdk.CreateOnly())
		}
		return nil
	}))
	s, stopped := newSite("a"), make(chan struct{})
	s.Spec.Extra = true
	go deleteAgain(k, s.Name, &rival, stopped)
	k.Apply(s)
	k.Eventually(s, testkit.Condition("Contended", metav1.ConditionTrue))
	rival.Store(false)
	<-stopped
	k.Update(s, func() { s.Spec.Extra = false })
	k.Eventually(s, testkit.Ready())
	states := collectStates(t, k)
	k.Update(s, func() { s.Spec.Extra = true })
	k.Eventually(s, testkit.Ready())
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), testkit.Exists())
	for _, state := range states(s.ResourceVersion) {
		if c := conditions.Get(state, "Contended"); c != nil && c.ObservedGeneration == s.Generation {
			t.Fatalf("the child that has returned is delayed: %s", c.Message)
		}
	}
}

// deleteAgain deletes a ConfigMap whenever it exists.
func deleteAgain(k *testkit.K, name string, while *atomic.Bool, stopped chan<- struct{}) {
	defer close(stopped)
	c := named(&corev1.ConfigMap{}, name)
	c.Namespace = k.Namespace
	for while.Load() && k.Context().Err() == nil {
		_ = k.Client.Delete(k.Context(), c)
		select {
		case <-k.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}
