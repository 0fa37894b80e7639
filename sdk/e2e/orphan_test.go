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

// An uncontrolled object is not adopted for a parent that has been deleted meanwhile, even without an event of the deletion.
// Garbage collection would delete the object.
func TestNoAdoptionForDeletedParent(t *testing.T) {
	t.Parallel()
	for name, finalizers := range map[string][]string{"deleted": nil, "terminating": {"e2e.homeostat.dev/test"}} {
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
			taken, s := foreignConfigMap(), newSite("a")
			s.Finalizers = finalizers
			k.Apply(taken)
			k.Apply(s)
			<-begun
			k.Delete(s)
			if finalizers == nil {
				k.Eventually(s, testkit.Gone())
			}
			close(deleted)
			waitIdle(k, running, quietPeriod)
			if k.Get(taken); len(taken.OwnerReferences) > 0 || taken.Data["text"] != "theirs" {
				t.Errorf("the object was adopted: %v", taken)
			}
			if finalizers != nil {
				k.Update(s, func() { s.Finalizers = nil })
				k.Eventually(s, testkit.Gone())
			}
		})
	}
}

// A parent that orphaned its children does not adopt them again. A new parent of the same name adopts them unchanged.
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
		waitIdle(k, running, quietPeriod)
		if k.Get(child); child.GetUID() != before || len(child.GetOwnerReferences()) > 0 {
			t.Errorf("the orphan was recreated or adopted: %v", child)
		}
	}
}
