package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// An adopted object that OnAdopt marked is orphaned, and not deleted, when it leaves the plan and when its parent is
// deleted: Orphan selects it by the mark, and removes the mark. Children that the operator created are deleted.
func TestAdoptedObjectIsOrphaned(t *testing.T) {
	t.Parallel()
	const mark = "e2e.homeostat.dev/adopted"
	for name, leave := range map[string]func(k *testkit.K, s client.Object){
		"pruned": func(k *testkit.K, s client.Object) {
			k.Update(s, func() { s.SetAnnotations(map[string]string{"leave": "yes"}) })
		},
		"deleted": func(k *testkit.K, s client.Object) { k.Delete(s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := operator(func(_ context.Context, p *pass) error {
				if p.Object.Annotations["leave"] != "" {
					return nil
				}
				for _, name := range []string{"taken", "made"} {
					child := configMap(p.Object, name)
					if before, ok := sdk.Live(p, configMap(p.Object, name)); ok && before.Annotations[mark] != "" {
						child.Annotations = map[string]string{mark: before.Annotations[mark]}
					}
					sdk.Apply(p, child, sdk.Adopt(), sdk.OnAdopt(func(existing, desired client.Object) {
						desired.SetAnnotations(map[string]string{mark: existing.GetAnnotations()["was"]})
					}))
				}
				return nil
			})
			op.Finalize = func(context.Context, *pass) error { return nil }
			op.Orphan = func(child client.Object) bool {
				annotations := child.GetAnnotations()
				_, adopted := annotations[mark]
				delete(annotations, mark)
				child.SetAnnotations(annotations)
				return adopted
			}
			running := start(k, op)
			taken, s := foreignConfigMap(), newSite("a")
			taken.Annotations = map[string]string{"was": "theirs"}
			k.Apply(taken)
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			made := named(&corev1.ConfigMap{}, "made")
			k.Eventually(made, testkit.Exists())
			waitIdle(k, running, quietPeriod)
			if k.Get(taken); taken.Annotations[mark] != "theirs" || len(taken.OwnerReferences) != 1 {
				t.Fatalf("the adopted object has annotations %v and owners %v", taken.Annotations, taken.OwnerReferences)
			}
			leave(k, s)
			k.Eventually(taken, testkit.Match("orphaned", func(o *corev1.ConfigMap) bool {
				return len(o.OwnerReferences) == 0 && o.Annotations[mark] == "" && o.Annotations["was"] == "theirs"
			}))
			if name == "pruned" { // there is no garbage collector in this test
				k.Eventually(made, testkit.Gone())
			}
		})
	}
}
