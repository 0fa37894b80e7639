package desired

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
)

// Claim returns the claim of the app's own. The error is about spec.storage.size, which the API server lets nobody store.
func Claim(app *v1.MyApp) (*corev1.PersistentVolumeClaim, error) {
	size, err := resource.ParseQuantity(app.Spec.Storage.Size)
	if err != nil {
		return nil, fmt.Errorf("spec.storage.size %q: %w", app.Spec.Storage.Size, err)
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(app), Labels: labels(app)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      slices.Clone(app.Spec.Storage.AccessModes),
			StorageClassName: app.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}, nil
}

// KeepSize makes want ask for what the claim has been granted, if that is more, as with a claim that an earlier app of the
// name left or that somebody grew by hand: no claim becomes smaller. One that is not bound keeps what it asks for, since
// only a bound one can ask for something else. Less than what was asked for and not granted is left to the API server to
// judge, which accepts it if it is more than the volume has.
func KeepSize(want, live *corev1.PersistentVolumeClaim) {
	asked, capacity := live.Spec.Resources.Requests[corev1.ResourceStorage], live.Status.Capacity[corev1.ResourceStorage]
	size := want.Spec.Resources.Requests[corev1.ResourceStorage]
	granted := size.Cmp(asked) < 0 && asked.Cmp(capacity) <= 0
	if granted || live.Status.Phase != corev1.ClaimBound {
		want.Spec.Resources.Requests[corev1.ResourceStorage] = asked
	}
}

// ClaimName is the name of [Claim].
func ClaimName(app *v1.MyApp) string { return app.Name + "-data" }

// Alone reports whether one node at a time can mount a volume with these access modes.
func Alone(modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}
