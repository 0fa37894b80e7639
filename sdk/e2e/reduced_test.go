package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The cache keeps little of an object that has the operator's label and no parent. AdoptIf gets it in full nevertheless, and
// so does Live once the object is a child.
func TestReducedObjectIsAdopted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	before := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{sdk.ManagedByLabel: operatorName}},
		Data:       map[string]string{"mine": strings.Repeat("x", 1000)},
	}
	k.Apply(before)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		c := sdk.Apply(p, configMap(p.Object, "a"), sdk.AdoptIf(func(o client.Object) bool {
			existing, ok := o.(*corev1.ConfigMap)
			return ok && len(existing.Data["mine"]) == 1000
		}))
		if live := c.Live(); live != nil {
			p.Object.Status.Seen = int64(len(live.Data["mine"]))
		}
		return nil
	}))
	waitIdle(k, running, quietPeriod) // the cache has the object without its data
	s := newSite("a")
	k.Apply(s)
	k.Eventually(before, text("hello"), testkit.Match("adopted", func(c *corev1.ConfigMap) bool {
		return metav1.IsControlledBy(c, s)
	}))
	k.Eventually(s, testkit.Ready(), testkit.Match("seen in full", func(s *site.Site) bool { return s.Status.Seen == 1000 }))
	mustPatch(t, k, before, types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	k.Eventually(before, text("hello"))
}
