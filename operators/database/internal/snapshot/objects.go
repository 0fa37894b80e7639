package snapshot

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
)

// VolumeSnapshotKind is the kind of copies of volumes. A cluster need not have it.
//
//nolint:gochecknoglobals // it is constant.
var VolumeSnapshotKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// VolumeSnapshotNamed returns an empty one of that name.
func VolumeSnapshotNamed(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(VolumeSnapshotKind)
	if name != "" {
		u.SetName(name)
	}
	return u
}

// VolumeSnapshot returns the copy of that name of the volume of a claim.
func VolumeSnapshot(o *v1.DBSnapshot, claim, name string) *unstructured.Unstructured {
	u := VolumeSnapshotNamed(name)
	u.SetLabels(labels(o))
	spec := map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim}}
	if class := o.Spec.VolumeSnapshotClassName; class != nil {
		spec["volumeSnapshotClassName"] = *class
	}
	u.Object["spec"] = spec
	return u
}

// Held reports whether somebody holds a VolumeSnapshot.
func Held(u *unstructured.Unstructured) bool { return u.GetLabels()[v1.HoldLabel] == "true" }

// Scripts returns the ConfigMap of what runs in the pods.
func Scripts(o *v1.DBSnapshot, scripts map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ScriptsName(o, scripts), Labels: labels(o)}, Data: scripts, Immutable: new(true),
	}
}

// Claim returns the name of the claim that dumps are kept in; "" if there are none.
func Claim(o *v1.DBSnapshot) string {
	switch {
	case o.Spec.Storage == nil:
		return ""
	case o.Spec.Storage.PersistentVolumeClaim.ClaimName != "":
		return o.Spec.Storage.PersistentVolumeClaim.ClaimName
	default:
		return ClaimName(o)
	}
}

// OwnClaim returns the claim of the DBSnapshot's own, nil if there is none. Live is the claim as it is, nil if there is
// none:
// its class stays, and it becomes larger and not smaller. The error is about the size, which the API server lets nobody
// store.
func OwnClaim(o *v1.DBSnapshot, live *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	if o.Spec.Storage == nil || o.Spec.Storage.PersistentVolumeClaim.Template == nil {
		return nil, nil //nolint:nilnil // that there is none is no error.
	}
	template := o.Spec.Storage.PersistentVolumeClaim.Template
	size, err := resource.ParseQuantity(template.Size)
	if err != nil {
		return nil, fmt.Errorf("spec.storage.persistentVolumeClaim.template.size %q: %w", template.Size, err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(o), Labels: labels(o)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: template.StorageClassName,
		},
	}
	if live != nil {
		claim.Spec.AccessModes = slices.Clone(live.Spec.AccessModes)
		if template.StorageClassName != nil {
			claim.Spec.StorageClassName = live.Spec.StorageClassName
		}
		size = storage.Request(live, size, true) // of a class that cannot the API server says so
	}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	return claim, nil
}

// Left reports whether a claim was left by a former DBSnapshot of the name.
func Left(o *v1.DBSnapshot) func(client.Object) bool {
	return func(claim client.Object) bool { return claim.GetLabels()[OwnerLabel] == o.Name }
}

// LeavesDumps reports whether there may be dumps that are to go with the DBSnapshot, in a claim that stays.
func LeavesDumps(o *v1.DBSnapshot) bool {
	return o.Spec.DeletionPolicy == v1.CopiesDeleted && o.Spec.Method != v1.MethodVolumeSnapshot && o.Spec.Storage != nil &&
		o.Spec.Storage.PersistentVolumeClaim.ClaimName != ""
}
