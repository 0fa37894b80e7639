package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// startInTwoNamespaces runs an operator that watches two namespaces.
func startInTwoNamespaces(
	k, far *testkit.K, reconcile func(context.Context, *pass) error, change ...func(*siteOperator),
) *testkit.Instance {
	op := operator(reconcile)
	op.Owns = append(op.Owns, &rbacv1.ClusterRole{})
	for _, f := range change {
		f(op)
	}
	return runInTwoNamespaces(k, far, op)
}

func runInTwoNamespaces(k, far *testkit.K, op *siteOperator, opts ...testkit.StartOption) *testkit.Instance {
	return k.Start(func(mgr manager.Manager) error {
		return op.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace, far.Namespace))
	}, opts...)
}

// configMapIn returns a ConfigMap in the other namespace.
func configMapIn(far *testkit.K, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: far.Namespace, Name: name}}
}

// An owner reference cannot cross namespaces. Children in other namespaces are still created and deleted with their parent.
func TestCrossNamespaceChildren(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	reconcile := func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "near"))
		if p.Object.Spec.Extra {
			c := configMap(p.Object, "remote")
			c.Namespace = far.Namespace
			sdk.Apply(p, c)
			sdk.Apply(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}})
		}
		return nil
	}
	running := startInTwoNamespaces(k, far, reconcile)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready(), finalizers())

	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = true })
	remote := configMapIn(far, "remote")
	far.Eventually(remote, text("hello"))
	k.Eventually(role, testkit.Exists())
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer))
	got := sent(k, running)
	guarded := slices.IndexFunc(got, func(r string) bool { return strings.HasPrefix(r, "patch sites") })
	made := slices.IndexFunc(got, func(r string) bool { return strings.Contains(r, "remote") })
	if guarded < 0 || guarded > made {
		t.Errorf("the finalizer was stored after the child: %v", got)
	}
	if len(remote.OwnerReferences)+len(role.OwnerReferences) > 0 {
		t.Errorf("owner references: %v, %v", remote.OwnerReferences, role.OwnerReferences)
	}

	// The child is watched, and a restart causes no writes.
	mustPatch(t, far, remote, types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	far.Eventually(remote, text("hello"))
	far.Delete(remote)
	far.Eventually(remote, text("hello"))
	running.Stop()
	running = startInTwoNamespaces(k, far, reconcile)
	if got := sent(k, running); len(writes(got)) > 0 {
		t.Errorf("writes after a restart: %v", got)
	}

	// The child and the finalizer are removed when the child leaves the plan.
	k.Update(s, func() { s.Spec.Extra = false })
	far.Eventually(remote, testkit.Gone())
	k.Eventually(role, testkit.Gone())
	k.Eventually(s, testkit.Ready(), finalizers())

	// The child is deleted with its parent. Finalizers of others do not hold up the parent.
	k.Update(s, func() { s.Spec.Extra = true })
	far.Eventually(remote, testkit.Exists())
	k.Eventually(s, testkit.Ready())
	mustPatch(t, far, remote, types.MergePatchType, `{"metadata":{"finalizers":["`+theirFinalizer+`"]}}`)
	k.Delete(s)
	k.Eventually(role, testkit.Gone())
	k.Eventually(s, testkit.Gone())
	far.Eventually(remote, testkit.Match("being deleted", func(c *corev1.ConfigMap) bool { return c.DeletionTimestamp != nil }))
	mustPatch(t, far, remote, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	far.Eventually(remote, testkit.Gone())
}

// writes returns the requests that are not reads.
func writes(requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(r string) bool {
		return strings.HasPrefix(r, "get") || strings.HasPrefix(r, "list")
	})
}

// Foreign objects are neither written nor deleted, even if they have a copied owner label.
func TestForeignObjectInOtherNamespace(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	foreign := configMapIn(far, "remote")
	foreign.Data = map[string]string{"text": "mine"}
	far.Apply(foreign)
	running := startInTwoNamespaces(k, far, applyIn(far))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	requireUnchanged(t, far, running, foreign)
	far.Delete(foreign)
	k.Eventually(s, testkit.Ready())

	// A user copies a child with all its labels and annotations.
	child := get(far, configMapIn(far, "remote"))
	clone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: far.Namespace, Name: "clone", Labels: child.Labels, Annotations: child.Annotations,
	}}
	far.Apply(clone)
	k.Update(s, func() { s.Spec.Text = "new" })
	far.Eventually(child, text("new"))
	requireUnchanged(t, far, running, clone)

	// Another site that applies the same object reports its owner, and creates the object after the owner was deleted.
	second := newSite("b")
	k.Apply(second)
	k.Eventually(second, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	if _, _, message := condition(second, conditions.Ready); !strings.Contains(message, k.Namespace+"/a") {
		t.Errorf("message %q does not name the owner", message)
	}
	// The copy does not hold up the deletion, and is not deleted.
	mustPatch(t, far, clone, types.MergePatchType, `{"metadata":{"finalizers":["`+theirFinalizer+`"]}}`)
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	k.Eventually(second, testkit.Ready())
	far.Eventually(child, text("hello"))
	if far.Get(clone); clone.DeletionTimestamp != nil {
		t.Error("the copy is being deleted")
	}
	mustPatch(t, far, clone, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
}

// applyIn returns a reconcile function with one child, in the other namespace.
func applyIn(far *testkit.K) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		c := configMap(p.Object, "remote")
		c.Namespace = far.Namespace
		sdk.Apply(p, c)
		return nil
	}
}

// If the finalizer is removed by force, the children are still deleted.
func TestCrossNamespaceChildOfDeletedParent(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	running := startInTwoNamespaces(k, far, applyIn(far))
	s, child := newSite("a"), configMapIn(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	far.Eventually(child, testkit.Exists())
	uid := child.UID
	running.Stop()
	k.Delete(s)
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	k.Eventually(s, testkit.Gone())
	startInTwoNamespaces(k, far, applyIn(far))
	far.Eventually(child, testkit.Gone())

	again := newSite("a")
	k.Apply(again)
	k.Eventually(again, testkit.Ready())
	if far.Get(child); child.UID == uid {
		t.Error("the child of the predecessor was adopted")
	}
}

// The informer of the parents may lag behind the informer of the children. Children of an existing parent are not deleted.
func TestCrossNamespaceChildOfUncachedParent(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	slow := &faults{lagging: func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/sites") }}
	other := runInTwoNamespaces(k, far, operator(applyIn(far)), slow.config(k)) // as if it were another replica
	waitIdle(k, other, quietPeriod)
	other.Recorder().Reset()
	slow.lag.Store(int64(time.Hour))
	startInTwoNamespaces(k, far, applyIn(far))
	s, child := newSite("a"), configMapIn(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	far.Eventually(child, testkit.Exists())
	uid := child.UID
	k.Wait("the other operator lists the sites", func(context.Context) error {
		for _, r := range other.Recorder().Requests() {
			if r.Verb == "list" && r.Resource == "sites" {
				return nil
			}
		}
		return errors.New("it has not")
	})
	far.Consistently(child, observationPeriod, testkit.Exists())
	if child.UID != uid {
		t.Error("the child was recreated")
	}
}

// The informer of the children may still have them as they were before a clean-up orphaned them.
func TestOrphanedCrossNamespaceChildIsNotCollected(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	slow := &faults{lagging: func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/configmaps") }}
	op := operator(applyIn(far))
	op.Finalize = func(_ context.Context, p *pass) error {
		p.OrphanChildren()
		return nil
	}
	running := runInTwoNamespaces(k, far, op, slow.config(k))
	s, child := newSite("a"), configMapIn(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	slow.lag.Store(int64(time.Hour))
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	waitIdle(k, running, observationPeriod)
	far.Get(child)
}

// A clean-up may orphan children in other namespaces, and may apply a child of its own there.
func TestCrossNamespaceChildrenAndCleanUp(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			t.Parallel()
			k, far := testkit.New(t), testkit.New(t)
			startInTwoNamespaces(k, far, applyIn(far), func(op *siteOperator) {
				op.Finalize = func(_ context.Context, p *pass) error {
					last := configMap(p.Object, "last")
					last.Namespace = far.Namespace
					sdk.Apply(p, last)
					if keep {
						p.OrphanChildren()
					}
					return nil
				}
			})
			s, child, last := newSite("a"), configMapIn(far, "remote"), configMapIn(far, "last")
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			far.Eventually(child, testkit.Exists())
			k.Delete(s)
			k.Eventually(s, testkit.Gone())
			if !keep {
				far.Eventually(child, testkit.Gone())
				far.Eventually(last, testkit.Gone())
				return
			}
			orphaned := testkit.Match("orphaned", func(c *corev1.ConfigMap) bool {
				return c.Labels[apply.OwnerUIDLabel] == "" && c.Annotations[apply.OwnerAnnotation] == ""
			})
			far.Consistently(child, observationPeriod, orphaned)
			far.Consistently(last, observationPeriod, orphaned)
		})
	}
}
