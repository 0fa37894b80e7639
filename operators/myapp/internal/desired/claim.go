package desired

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
)

// Claim returns the app's own claim. The error is about spec.storage.size; the API server rejects such a size.
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

// KeepSize raises the request of want to the granted size, because a claim cannot shrink. This concerns claims that a
// predecessor retained and claims that were expanded by hand. An unbound claim keeps its request, because only a bound
// claim can be expanded. A request below an expansion that was not granted is left as it is: the API server accepts it if
// it exceeds the capacity.
func KeepSize(want, live *corev1.PersistentVolumeClaim) {
	asked, capacity := live.Spec.Resources.Requests[corev1.ResourceStorage], live.Status.Capacity[corev1.ResourceStorage]
	size := want.Spec.Resources.Requests[corev1.ResourceStorage]
	granted := size.Cmp(asked) < 0 && asked.Cmp(capacity) <= 0
	if granted || live.Status.Phase != corev1.ClaimBound {
		want.Spec.Resources.Requests[corev1.ResourceStorage] = asked
	}
}

// ClaimName returns the name of [Claim].
func ClaimName(app *v1.MyApp) string { return app.Name + "-data" }

// SingleNode reports whether only one node at a time can mount a volume with these access modes.
func SingleNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}
