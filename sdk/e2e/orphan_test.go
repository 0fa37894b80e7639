package e2e

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// What is nobody's is not taken over for an object that has been deleted meanwhile, of which no event need have told: it
// would be collected as garbage.
func TestAdoptionForNobody(t *testing.T) {
	t.Parallel()
	for name, finalizers := range map[string][]string{"gone": nil, "on its way": {"e2e.homeostat.dev/test"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			begun, deleted := make(chan struct{}), make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			running := start(k, operator(func(ctx context.Context, p *pass) error {
				if p.Object.DeletionTimestamp != nil {
					return nil
				}
				begin()
				select {
				case <-deleted:
				case <-ctx.Done():
				}
				sdk.Apply(p, configMap(p.Object, "taken"), sdk.Adopt())
				return nil
			}))
			taken, s := theirs(), newSite("a")
			s.Finalizers = finalizers
			k.Apply(taken)
			k.Apply(s)
			<-begun
			k.Delete(s)
			if finalizers == nil {
				k.Eventually(s, testkit.Gone())
			}
			close(deleted)
			quiet(k, running, still)
			if k.Get(taken); len(taken.OwnerReferences) > 0 || taken.Data["text"] != "theirs" {
				t.Errorf("it was taken: %v", taken)
			}
			if finalizers != nil {
				k.Update(s, func() { s.Finalizers = nil })
				k.Eventually(s, testkit.Gone())
			}
		})
	}
}

// One that left its children to nobody takes none of them back, and its successor has them as they are.
func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "child"), sdk.Adopt())
		return nil
	}))
	var before types.UID
	for range 3 {
		s := newSite("a")
		k.Apply(s)
		k.Eventually(s, testkit.Ready())
		child := get(k, named(&corev1.ConfigMap{}, "child"))
		if before == "" {
			before = child.GetUID()
		}
		if err := k.Client.Delete(k.Context(), s, client.PropagationPolicy("Orphan")); err != nil {
			t.Fatal(err)
		}
		k.Eventually(s, testkit.Gone())
		quiet(k, running, still)
		if k.Get(child); child.GetUID() != before || len(child.GetOwnerReferences()) > 0 {
			t.Errorf("what was left to nobody is %v", child)
		}
	}
}
