package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// The desired content has neither the status nor what the API server has set.
func TestDesired(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	got := state.Desired(&unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Service",
		"metadata": fields{
			"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
			"labels": fields{"app": "a"},
			"managedFields": []any{fields{
				"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields{"f:spec": fields{"f:type": fields{}}},
			}},
		},
		"spec":   fields{"type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None"},
		"status": fields{"loadBalancer": fields{}},
	}})
	want := fields{
		"apiVersion": "v1", "kind": "Service", "spec": fields{"type": "ClusterIP"},
		"metadata": fields{"name": "a", "namespace": "n", "labels": fields{"app": "a"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The API server stores stringData as data, which has no manager after an apply.
func TestDesiredSecret(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	got := state.Desired(&unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": fields{
			"name": "a", "managedFields": []any{fields{
				"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1",
				"fieldsV1": fields{"f:stringData": fields{"f:key": fields{}}, "f:data": fields{"f:other": fields{}}},
			}},
		},
		"data": fields{"key": "YQ==", "other": "Yg==", "unmanaged": "Yw=="},
	}})
	want := fields{
		"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": "a"}, "data": fields{"key": "YQ==", "other": "Yg=="},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A patch from a to b turns a into b, and leaves other fields of a value alone.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	a := fields{"x": fields{"old": "1", "same": "2", "changed": "3"}, "list": []any{"a"}}
	b := fields{"x": fields{"same": "2", "changed": "4"}, "list": []any{"a", "b"}, "new": fields{"y": true}}
	patch := state.MergePatch(a, b)
	if diff := cmp.Diff(b, state.ApplyMergePatch(a, patch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := state.ApplyMergePatch(fields{"x": fields{"old": "1", "of others": "5"}}, patch)
	want := fields{"x": fields{"of others": "5", "changed": "4"}, "list": []any{"a", "b"}, "new": fields{"y": true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of another value (-want +got):\n%s", diff)
	}
	if empty := state.MergePatch(a, a); len(empty) > 0 {
		t.Errorf("a patch of equal values: %v", empty)
	}
}

func TestIsSuspended(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	for name, test := range map[string]struct {
		content fields
		want    bool
	}{
		"a field":      {fields{"spec": fields{"suspend": true}}, true},
		"an inner one": {fields{"spec": fields{"rollout": fields{"isPaused": true}}}, true},
		"an annotation": {
			fields{"metadata": fields{"annotations": fields{"example.com/paused": "true"}}}, true,
		},
		"false":   {fields{"spec": fields{"suspend": false}}, false},
		"another": {fields{"spec": fields{"enabled": true, "pauseImage": "pause:3"}}, false},
	} {
		if got := state.IsSuspended(test.content); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
