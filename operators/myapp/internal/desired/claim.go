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

// ClaimName returns the name of [Claim].
func ClaimName(app *v1.MyApp) string { return app.Name + "-data" }
