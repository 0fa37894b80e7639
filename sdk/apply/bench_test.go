package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// database returns a typical child.
func database() *appsv1.StatefulSet {
	labels := map[string]string{"app": "db", "instance": "a"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "a", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "db", Image: "db:1", Ports: []corev1.ContainerPort{{Name: "db", ContainerPort: 5432}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
						}},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
					Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"},
					}}},
				},
			},
		},
	}
}

// BenchmarkNewIntent measures the cost of each child in each reconcile.
func BenchmarkNewIntent(b *testing.B) {
	desired := database()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewIntent(desired, scheme.Scheme); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConverged measures the check of a converged child: unchanged, with a changed status, and after a restart.
func BenchmarkConverged(b *testing.B) {
	i, err := NewIntent(database(), scheme.Scheme)
	if err != nil {
		b.Fatal(err)
	}
	owned, err := fieldpath.SetFromValue(value.NewValueInterface(i.Fields())).ToJSON()
	if err != nil {
		b.Fatal(err)
	}
	live := database()
	live.UID = "1"
	live.ResourceVersion = "1"
	live.Annotations = map[string]string{DigestAnnotation: i.Digest()}
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(owned)),
	}}
	versions := [2]string{"1", "2"}
	for name, manager := range map[string]func(n int, m *FieldManager) *FieldManager{
		"unchanged":       func(_ int, m *FieldManager) *FieldManager { return m },
		"status changed":  func(n int, m *FieldManager) *FieldManager { live.ResourceVersion = versions[n%2]; return m },
		"after a restart": func(int, *FieldManager) *FieldManager { return NewFieldManager("us") },
	} {
		b.Run(name, func(b *testing.B) {
			m := NewFieldManager("us")
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if m = manager(n, m); !m.Converged(i, live) {
					b.Fatal("it is not converged")
				}
			}
		})
	}
}
