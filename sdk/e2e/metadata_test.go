package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// With MetadataOnly an operator caches only the metadata of a large kind, with the same results.
func TestMetadataOnly(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var mu sync.Mutex
	full := map[string]bool{}
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/configmaps") {
			mu.Lock()
			defer mu.Unlock()
			full[req.Header.Get("Accept")] = !strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata")
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	reconcile := func(_ context.Context, p *pass) error {
		c := sdk.Apply(p, configMap(p.Object, p.Object.Name), sdk.ReadyWhen(func(c *corev1.ConfigMap) (bool, string) {
			return c.Annotations["done"] == "yes", "it is not done"
		}))
		if c.Live().Data != nil || c.Exists() && c.Live().Labels["color"] != "blue" {
			p.Warn("Unexpected", "it sees %v", c.Live())
			p.SetCondition("Odd", metav1.ConditionTrue, "Unexpected", "it sees %v", c.Live())
		}
		if p.Object.Spec.Extra {
			sdk.Apply(p, configMap(p.Object, "extra"), sdk.Unmanaged("data.text"))
		}
		return nil
	}
	begin := func() *testkit.Instance {
		op := operator(reconcile)
		op.Owns[0] = sdk.MetadataOnly(&corev1.ConfigMap{})
		return start(k, op, f.config(k))
	}
	running := begin()
	s, child := newSite("a"), named(&corev1.ConfigMap{}, "a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Progressing"))
	mustPatch(t, k, child, types.MergePatchType, `{"metadata":{"annotations":{"done":"yes"}}}`)
	k.Eventually(s, testkit.Ready())
	mustPatch(t, k, child, types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	k.Eventually(child, text("hello"))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(child, text("new"))
	converged(k, running, s)
	running.Stop()
	running = begin()
	if got := writes(sent(k, running)); len(got) > 0 {
		t.Errorf("writes after a restart: %v", got)
	}
	if c := conditions.Get(get(k, s), "Odd"); c != nil {
		t.Error(c.Message)
	}

	// An unmanaged field needs its current value.
	k.Update(s, func() { s.Spec.Extra = true })
	k.Eventually(s, testkit.Reason(conditions.Reconciling, metav1.ConditionTrue, "Panic"))
	if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "take MetadataOnly out of Owns") {
		t.Errorf("message %q", message)
	}

	mu.Lock()
	defer mu.Unlock()
	for accept, whole := range full {
		if whole {
			t.Errorf("ConfigMaps are asked for as %q", accept)
		}
	}
	if len(full) == 0 {
		t.Error("the recorder has no request for ConfigMaps")
	}
}
