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

// database is a child as operators have it.
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

// BenchmarkNewIntent is what each child costs in each pass, whether or not there is anything to do.
func BenchmarkNewIntent(b *testing.B) {
	desired := database()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewIntent(desired, scheme.Scheme); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConverged is the look at a child that is as it should be: one that has not changed since the last look, one whose
// status has, and the first look after a restart.
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
	live.UID, live.ResourceVersion = "1", "1"
	live.Annotations = map[string]string{DigestAnnotation: i.Digest()}
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(owned)),
	}}
	versions := [2]string{"1", "2"}
	for name, look := range map[string]func(n int, w *Manager) *Manager{
		"unchanged":       func(_ int, w *Manager) *Manager { return w },
		"status changed":  func(n int, w *Manager) *Manager { live.ResourceVersion = versions[n%2]; return w },
		"after a restart": func(int, *Manager) *Manager { return NewManager("us") },
	} {
		b.Run(name, func(b *testing.B) {
			w := NewManager("us")
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if w = look(n, w); !w.Converged(i, live) {
					b.Fatal("it is not converged")
				}
			}
		})
	}
}
