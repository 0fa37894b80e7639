package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

func TestAppliedMetadata(t *testing.T) {
	t.Parallel()
	type managed = metav1.ManagedFieldsEntry
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) managed {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"app": "web", "example.com/a": "1"}, Annotations: map[string]string{"note": "x", "other": "y"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			entry("other", apply, "", `{"f:metadata":{"f:labels":{"f:app":{}}}}`),
			entry("own", update, "", `{"f:metadata":{"f:labels":{"f:app":{}}}}`),
			entry("own", apply, "status", `{"f:metadata":{"f:labels":{"f:app":{}}}}`),
			entry("own", apply, "", `{"f:metadata":{"f:annotations":{"f:note":{}},"f:labels":{".":{},"f:example.com/a":{}}}}`),
		},
	}}
	want := object.MetadataEntries{
		Labels: map[string]string{"example.com/a": "1"}, Annotations: map[string]string{"note": "x"},
	}
	if diff := cmp.Diff(want, object.AppliedMetadata(pod, "own")); diff != "" {
		t.Errorf("the applied metadata differs (-want +got):\n%s", diff)
	}
	if got := object.AppliedMetadata(pod, "none"); len(got.Labels)+len(got.Annotations) > 0 {
		t.Errorf("another manager has applied %v", got)
	}
}
