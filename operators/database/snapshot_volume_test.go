package database_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// volumeSnapshots returns the CRD of VolumeSnapshot with the fields that the operator uses.
func volumeSnapshots() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "snapshot.storage.k8s.io", "scope": "Namespaced",
		"names": map[string]any{"kind": "VolumeSnapshot", "plural": "volumesnapshots"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		}},
	}}}
	u.SetAPIVersion("apiextensions.k8s.io/v1")
	u.SetKind("CustomResourceDefinition")
	u.SetName("volumesnapshots.snapshot.storage.k8s.io")
	u.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"})
	return u
}

func volumeSnapshot(k *testkit.K, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"})
	u.SetNamespace(k.Namespace)
	u.SetName(name)
	return u
}

// setDriverStatus writes the status of a VolumeSnapshot as its driver does.
func setDriverStatus(k *testkit.K, name string, status map[string]any) {
	u := volumeSnapshot(k, name)
	k.Eventually(u, testkit.Exists())
	k.UpdateStatus(u, func() { u.Object["status"] = status })
}

func ofVolume(name string) *v1.DBSnapshot {
	o := yearly(name)
	o.Spec.Method = v1.MethodVolumeSnapshot
	o.Spec.Storage = nil
	o.Spec.Source = v1.SnapshotSource{PersistentVolumeClaimName: "data"}
	o.Spec.Retention.KeepLast = 2
	return o
}

// Copies of volumes: first without the CRD, finally pruned oldest first. Held copies stay, and with the policy Retain all of
// them.
func TestVolumeSnapshots(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private()) // the CRD is cluster-wide
	c := newYear()
	op := startSnapshots(k, c)
	o := ofVolume("a")
	k.Apply(o)
	k.Eventually(o, waitsFor("KindNotInstalled"))
	waitIdle(k, op)
	k.Apply(volumeSnapshots())
	k.Eventually(o, waitsFor("ReferenceNotFound"))
	k.Apply(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}})
	year := func(i int) string { return fmt.Sprintf("a-%d01010000", 2032+i) }
	ready := map[string]any{"readyToUse": true, "restoreSize": "1Gi"}

	u := volumeSnapshot(k, year(0))
	k.Eventually(u, testkit.Match("of the claim, and the DBSnapshot's", func(u *unstructured.Unstructured) bool {
		claim, _, _ := unstructured.NestedString(u.Object, "spec", "source", "persistentVolumeClaimName")
		return claim == "data" && metav1.IsControlledBy(u, o)
	}))
	setDriverStatus(k, year(0), map[string]any{"readyToUse": false, "error": map[string]any{"message": "the driver is busy"}})
	k.Eventually(o, snapshotPhase(v1.SnapshotRunning), testkit.Match("the driver's words", func(o *v1.DBSnapshot) bool {
		return o.Status.Active != nil && o.Status.Active.Message == "the driver is busy"
	}))
	setDriverStatus(k, year(0), ready)
	k.Eventually(o, lastCopy(year(0)), testkit.Ready())
	k.Eventually(u, testkit.Match("on its own", func(u *unstructured.Unstructured) bool {
		return len(u.GetOwnerReferences()) == 0
	}))
	if got := o.Status.LastSnapshot; got.SizeBytes != 1<<30 || got.Location != year(0) {
		t.Errorf("the last copy is %+v", got)
	}

	// The driver never completes it: the unfinished copy is deleted.
	c.NextYear(k, o)
	setDriverStatus(k, year(1), map[string]any{"readyToUse": false, "error": map[string]any{"message": "no space"}})
	k.Eventually(o, snapshotPhase(v1.SnapshotRunning))
	c.Move(k, o, 7201*1e9)
	k.Eventually(o, failures(1))
	k.Eventually(volumeSnapshot(k, year(1)), testkit.Gone())
	if got, want := o.Status.History[0].Message, "it took longer than 2h0m0s: no space"; got != want {
		t.Errorf("it failed because %q, want %q", got, want)
	}

	// The first copy is held. So the third does not prune it, and the fourth prunes the third.
	k.Update(u, func() {
		labels := u.GetLabels()
		labels[v1.HoldLabel] = "true"
		u.SetLabels(labels)
	})
	for i := 2; i <= 4; i++ {
		c.NextYear(k, o)
		setDriverStatus(k, year(i), ready)
		k.Eventually(o, lastCopy(year(i)))
	}
	k.Eventually(o, enforced("Held", metav1.ConditionTrue), testkit.Ready())
	k.Eventually(volumeSnapshot(k, year(2)), testkit.Gone())
	wantVolumes(k, year(0), year(3), year(4))
	waitIdle(k, op)

	// A foreign one is not written. An unfinished one is deleted with the DBSnapshot, copies stay.
	foreign := volumeSnapshot(k, year(5))
	k.Apply(foreign)
	c.NextYear(k, o)
	k.Eventually(o, waitsFor("NameTaken"))
	k.Delete(foreign)
	k.Eventually(o, snapshotPhase(v1.SnapshotRunning))
	k.Eventually(volumeSnapshot(k, year(5)), testkit.Match("the DBSnapshot's", func(u *unstructured.Unstructured) bool {
		return metav1.IsControlledBy(u, o)
	}))
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	wantVolumes(k, year(0), year(3), year(4))
}

// wantVolumes waits until exactly these VolumeSnapshots exist.
func wantVolumes(k *testkit.K, names ...string) {
	k.Wait(fmt.Sprintf("there are the VolumeSnapshots %s", names), func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("snapshot.storage.k8s.io/v1")
		list.SetKind("VolumeSnapshotList")
		if err := k.Client.List(ctx, list, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		var got []string
		for _, u := range list.Items {
			got = append(got, u.GetName())
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			return fmt.Errorf("there are %s", got)
		}
		return nil
	})
}

// With the deletionPolicy Delete all copies are deleted, even if it was set late.
func TestVolumeSnapshotDeletion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	k.Apply(volumeSnapshots())
	c := newYear()
	startSnapshots(k, c)
	db := newDatabase("shop")
	k.Apply(db)
	k.UpdateStatus(db, func() { db.Status.State = v1.Hibernated }) // the volume of a stopped server can be copied
	k.Apply(newClaim("data-shop-db-0"))
	o := ofVolume("a")
	o.Spec.Source = v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: "shop"}}
	k.Apply(o)
	setDriverStatus(k, "a-203201010000", map[string]any{"readyToUse": true})
	k.Eventually(o, lastCopy("a-203201010000"), testkit.Ready())
	k.Update(o, func() { o.Spec.DeletionPolicy = v1.CopiesDeleted })
	of := testkit.Match("the DBSnapshot's", func(u *unstructured.Unstructured) bool { return metav1.IsControlledBy(u, o) })
	k.Eventually(volumeSnapshot(k, "a-203201010000"), of)
	k.Delete(o)
	wantVolumes(k)
}
