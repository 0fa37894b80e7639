package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// At most 20 conflicting objects are watched for one object, so that conflicts cannot exhaust the watches. All conflicts are
// found nevertheless, and the others are looked for in later reconciles.
func TestConflictWatchesAreLimited(t *testing.T) {
	t.Parallel()
	const conflicts, limit = 25, 20
	k := testkit.New(t)
	var mu sync.Mutex
	reported := 0
	op := operator(func(_ context.Context, p *pass) error {
		for i := range conflicts {
			sdk.Apply(p, configMap(p.Object, fmt.Sprintf("taken-%02d", i)))
		}
		p.OnPlanExecuted(func(children []conditions.Child) {
			mu.Lock()
			defer mu.Unlock()
			reported = 0
			for _, c := range children {
				if c.Reason == "ResourceConflict" {
					reported++
				}
			}
		})
		return nil
	})
	watched := map[string]bool{}
	f := &faults{watched: func(req *http.Request, opened bool) {
		if selector := req.URL.Query().Get("fieldSelector"); opened && strings.HasPrefix(selector, "metadata.name=taken") {
			mu.Lock()
			defer mu.Unlock()
			watched[selector] = true
		}
	}}
	for i := range conflicts {
		k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("taken-%02d", i)}})
	}
	running := start(k, op, f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	waitIdle(k, running, quietPeriod)
	mu.Lock()
	if len(watched) != limit || reported != conflicts {
		t.Errorf("%d objects are watched, want %d, and %d conflicts are reported, want %d",
			len(watched), limit, reported, conflicts)
	}
	mu.Unlock()
	last := named(&corev1.ConfigMap{}, fmt.Sprintf("taken-%02d", conflicts-1)) // it is not watched
	k.Delete(last)
	k.Eventually(last, testkit.Gone())
	k.Update(s, func() { s.Spec.Text = "reconcile" })
	k.Eventually(last, testkit.Match("a child", func(o *corev1.ConfigMap) bool { return len(o.OwnerReferences) == 1 }))
}
