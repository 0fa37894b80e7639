package desired

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
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
)

// VolumeSnapshotKind is the kind of volume copies. A cluster need not have it.
var VolumeSnapshotKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// VolumeSnapshotNamed returns a VolumeSnapshot with nothing but a name.
func VolumeSnapshotNamed(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(VolumeSnapshotKind)
	if name != "" {
		u.SetName(name)
	}
	return u
}

// VolumeSnapshot returns the named copy of a claim's volume.
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

// ScriptsConfigMap returns the immutable ConfigMap with the scripts.
func ScriptsConfigMap(o *v1.DBSnapshot, scripts map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ScriptsName(o, scripts), Labels: labels(o)}, Data: scripts, Immutable: new(true),
	}
}

// DumpClaimName returns the name of the claim with the dumps; "" if there is none.
func DumpClaimName(o *v1.DBSnapshot) string {
	switch {
	case o.Spec.Storage == nil:
		return ""
	case o.Spec.Storage.PersistentVolumeClaim.ClaimName != "":
		return o.Spec.Storage.PersistentVolumeClaim.ClaimName
	default:
		return OwnClaimName(o)
	}
}

// DumpClaim returns the claim that the DBSnapshot creates, nil if there is none. The argument live is the existing claim or
// nil: its class is kept, and its size never shrinks. The error reports an invalid size, which the API server rejects as
// well.
func DumpClaim(o *v1.DBSnapshot, live *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	if o.Spec.Storage == nil || o.Spec.Storage.PersistentVolumeClaim.Template == nil {
		return nil, nil //nolint:nilnil // that there is none is no error.
	}
	template := o.Spec.Storage.PersistentVolumeClaim.Template
	size, err := resource.ParseQuantity(template.Size)
	if err != nil {
		return nil, fmt.Errorf("spec.storage.persistentVolumeClaim.template.size %q: %w", template.Size, err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: OwnClaimName(o), Labels: labels(o)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: template.StorageClassName,
		},
	}
	if live != nil {
		claim.Spec.AccessModes = slices.Clone(live.Spec.AccessModes)
		if template.StorageClassName != nil {
			claim.Spec.StorageClassName = live.Spec.StorageClassName
		}
		size = storage.Request(live, size, true) // the API server rejects an expansion that the class does not allow
	}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	return claim, nil
}

// FromPredecessor returns the predicate for claims of a predecessor of the same name.
func FromPredecessor(o *v1.DBSnapshot) func(client.Object) bool {
	return adoption.Permitted(Manager, OwnerLabel, o.Name)
}
