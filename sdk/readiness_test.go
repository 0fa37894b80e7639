package sdk

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkWellKnown reads the readiness of a child, as each pass does of each.
func BenchmarkWellKnown(b *testing.B) {
	const owned = `{"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}},"f:labels":{"f:app":{}}},` +
		`"f:spec":{"f:replicas":{},"f:selector":{},"f:serviceName":{},"f:template":{"f:spec":{"f:containers":{}}}}}`
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1, ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(owned),
		}}},
		Spec:   appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{}},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1, ReadyReplicas: 1, CurrentReplicas: 1},
	}
	s := &step{gvk: appsv1.SchemeGroupVersion.WithKind("StatefulSet")}
	b.ReportAllocs()
	for b.Loop() {
		if ready, message := s.wellKnown(set); !ready {
			b.Fatal(message)
		}
	}
	if len(set.ManagedFields) == 0 {
		b.Error("the object, which a cache shares, was changed")
	}
}
