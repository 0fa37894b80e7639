package gc_test

import (
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		run    func(t *testing.T, ns *corev1.Namespace)
	}{
		"Background": {
			reason: "dependents are deleted, and their dependents too",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner))
				grandchild := newConfigMap(t, ns, "grandchild", ownedBy(child))
				other := newConfigMap(t, ns, "other")
				always(t, kept(t, owner, child, grandchild))
				began := time.Now()
				deleteObject(t, owner, background)
				eventually(t, gone(t, owner, child, grandchild))
				t.Logf("three generations gone after %v", time.Since(began))
				always(t, kept(t, other))
			},
		},
		"BackgroundHeldChild": {
			reason: "a finalizer of a child holds the child, not its owner",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner), held)
				deleteObject(t, owner, background)
				eventually(t, gone(t, owner))
				eventually(t, deleting(t, child))
				release(t, child)
				eventually(t, gone(t, child))
			},
		},
		"ForegroundBlocked": {
			reason: "an owner waits for dependents that block its deletion",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner), blocking, held)
				deleteObject(t, owner, foreground)
				eventually(t, deleting(t, owner, child))
				always(t, deleting(t, owner, child))
				release(t, child)
				eventually(t, gone(t, owner, child))
			},
		},
		"ForegroundUnblocked": {
			reason: "an owner does not wait for dependents that do not block, but they are deleted",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner), held)
				deleteObject(t, owner, foreground)
				eventually(t, gone(t, owner))
				eventually(t, deleting(t, child))
				release(t, child)
				eventually(t, gone(t, child))
			},
		},
		"ForegroundUnblockedLater": {
			reason: "an owner stops waiting when its dependent stops blocking",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner), blocking, held)
				deleteObject(t, owner, foreground)
				eventually(t, deleting(t, owner, child))
				patch := `[{"op":"replace","path":"/metadata/ownerReferences/0/blockOwnerDeletion","value":false}]`
				must(t, api.Patch(t.Context(), child, client.RawPatch(types.JSONPatchType, []byte(patch))))
				eventually(t, gone(t, owner))
				always(t, deleting(t, child))
				release(t, child)
			},
		},
		"ForegroundGenerations": {
			reason: "a child with children of its own is deleted in the foreground as well: leaves go first",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner), blocking)
				grandchild := newConfigMap(t, ns, "grandchild", ownedBy(child), blocking, held)
				deleteObject(t, owner, foreground)
				eventually(t, deleting(t, owner, child, grandchild))
				always(t, deleting(t, owner, child, grandchild))
				release(t, grandchild)
				eventually(t, gone(t, owner, child, grandchild))
			},
		},
		"ForegroundCycle": {
			reason: "two objects that own each other do not wait for each other forever",
			run: func(t *testing.T, ns *corev1.Namespace) {
				one := newConfigMap(t, ns, "one")
				two := newConfigMap(t, ns, "two", ownedBy(one), blocking)
				ownedBy(two)(one)
				blocking(one)
				must(t, api.Update(t.Context(), one))
				always(t, kept(t, one, two))
				deleteObject(t, one, foreground)
				eventually(t, gone(t, one, two))
			},
		},
		"Orphan": {
			reason: "orphans stay and lose the reference",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := newConfigMap(t, ns, "child", ownedBy(owner))
				other := newConfigMap(t, ns, "other")
				shared := newConfigMap(t, ns, "shared", ownedBy(owner, other))
				deleteObject(t, owner, orphan) // immediate: the collector may not have seen the children yet
				eventually(t, gone(t, owner))
				eventually(t, ownedOnlyBy(t, child))
				eventually(t, ownedOnlyBy(t, shared, other))
				always(t, kept(t, child, shared))
			},
		},
		"OneOfTwoOwners": {
			reason: "the second owner keeps the object, and the reference to the first one is removed",
			run: func(t *testing.T, ns *corev1.Namespace) {
				one, two := newConfigMap(t, ns, "one"), newConfigMap(t, ns, "two")
				child := newConfigMap(t, ns, "child", ownedBy(one, two))
				deleteObject(t, one, background)
				eventually(t, ownedOnlyBy(t, child, two))
				always(t, kept(t, child))
				deleteObject(t, two, background)
				eventually(t, gone(t, child))
			},
		},
		"OneOfTwoOwnersForeground": {
			reason: "an object with another owner does not hold up the one that is deleted in the foreground",
			run: func(t *testing.T, ns *corev1.Namespace) {
				one, two := newConfigMap(t, ns, "one"), newConfigMap(t, ns, "two")
				child := newConfigMap(t, ns, "child", ownedBy(two, one), blocking, held)
				deleteObject(t, one, foreground)
				eventually(t, gone(t, one))
				eventually(t, ownedOnlyBy(t, child, two))
				always(t, kept(t, child))
				release(t, child)
			},
		},
		"AbsentOwner": {
			reason: "an object whose owner never existed is garbage from the start",
			run: func(t *testing.T, ns *corev1.Namespace) {
				ghost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ghost", UID: "no-such-uid"}}
				child := newConfigMap(t, ns, "child", ownedBy(ghost))
				eventually(t, gone(t, child))
			},
		},
		"RecreatedOwner": {
			reason: "an owner of the same name with another UID is another object",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				former := owner.DeepCopy()
				former.UID = "the-one-before"
				child := newConfigMap(t, ns, "child", ownedBy(former))
				eventually(t, gone(t, child))
				always(t, kept(t, owner))
			},
		},
		"OwnerInAnotherNamespace": {
			reason: "references do not cross namespaces, so the owner counts as absent",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, newNamespace(t), "owner")
				always(t, kept(t, owner)) // the collector now knows the owner, which must not change the result
				child := newConfigMap(t, ns, "child", ownedBy(owner))
				eventually(t, gone(t, child))
				always(t, kept(t, owner))
			},
		},
		"ClusterWideOwner": {
			reason: "a cluster-wide object may own namespaced ones",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
				must(t, api.Create(t.Context(), owner))
				child := newConfigMap(t, ns, "child", ownedBy(owner))
				always(t, kept(t, child))
				deleteObject(t, owner, background)
				eventually(t, gone(t, child))
			},
		},
		"NamespacedOwnerOfClusterWide": {
			reason: "a cluster-wide object cannot name the namespace of its owner, so it is kept",
			run: func(t *testing.T, ns *corev1.Namespace) {
				owner := newConfigMap(t, ns, "owner")
				child := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
				ownedBy(owner)(child)
				must(t, api.Create(t.Context(), child))
				deleteObject(t, owner, background)
				eventually(t, gone(t, owner))
				always(t, kept(t, child))
				deleteObject(t, child, background)
			},
		},
		"AnotherVersionOfTheOwner": {
			reason: "a reference may name any served version of the owner's kind",
			run: func(t *testing.T, ns *corev1.Namespace) {
				hpa := &autoscalingv2.HorizontalPodAutoscaler{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "owner"},
					Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
						ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
						MaxReplicas:    1,
					},
				}
				must(t, api.Create(t.Context(), hpa))
				older := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: hpa.ObjectMeta}
				child := newConfigMap(t, ns, "child", ownedBy(older))
				always(t, kept(t, child))
				deleteObject(t, hpa, background)
				eventually(t, gone(t, child))
			},
		},
		"UnknownKindOfOwner": {
			reason: "an owner of an unknown kind does not count as absent",
			run: func(t *testing.T, ns *corev1.Namespace) {
				crd := definition(word(), apiextensionsv1.NamespaceScoped)
				ref := metav1.OwnerReference{
					APIVersion: "test.homeostat.dev/v1", Kind: crd.Spec.Names.Kind, Name: "o", UID: "unknown",
				}
				refer := func(o client.Object) { o.SetOwnerReferences([]metav1.OwnerReference{ref}) }
				child := newConfigMap(t, ns, "child", refer)
				always(t, kept(t, child))
				install(t, crd)
				eventually(t, gone(t, child))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("reason: %s", tt.reason)
				}
			}()
			tt.run(t, newNamespace(t))
		})
	}
}

// An object that is adopted or orphaned at the moment of its collection must stay.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ghost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ghost", UID: "no-such-uid"}}
	var rescued sync.Map
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, GenerateName: "child-"}}
			ownedBy(ghost)(child)
			if err := api.Create(t.Context(), child); err != nil {
				t.Error(err)
				return
			}
			<-time.After(time.Duration(i%10) * 200 * time.Microsecond) // to hit different states of the collector
			child.OwnerReferences = nil
			if api.Update(t.Context(), child) == nil {
				rescued.Store(child.Name, child)
			}
		})
	}
	wg.Wait()
	count := 0
	rescued.Range(func(_, child any) bool {
		count++
		always(t, kept(t, child.(*corev1.ConfigMap)))
		return count < 10 // each check takes a while
	})
	t.Logf("at least %d of 100 objects were freed in time, and none was deleted", count)
}
