package observed

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// TestParentOf covers operators of a namespaced and of a cluster-scoped kind.
func TestParentOf(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	reference := metav1.OwnerReference{
		APIVersion: "example.com/v1beta1", Kind: "Thing", Name: "a", UID: "u1", Controller: new(true),
	}
	labeled := metav1.ObjectMeta{
		Namespace:   "here",
		Labels:      map[string]string{"homeostat.dev/owner-uid": "u1"},
		Annotations: map[string]string{"homeostat.dev/owner": "there/a"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
		}},
	}
	foreign := labeled
	foreign.ManagedFields = nil
	both := labeled
	both.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "d", Controller: new(true),
	}}
	for name, test := range map[string]struct {
		scope meta.RESTScope
		of    metav1.ObjectMeta
		want  Parent
	}{
		"controlled": {
			meta.RESTScopeNamespace,
			metav1.ObjectMeta{Namespace: "here", OwnerReferences: []metav1.OwnerReference{reference}},
			Parent{Key: types.NamespacedName{Namespace: "here", Name: "a"}, UID: "u1"},
		},
		"controlled by a cluster-scoped object": {
			meta.RESTScopeRoot,
			metav1.ObjectMeta{Namespace: "here", OwnerReferences: []metav1.OwnerReference{reference}},
			Parent{Key: types.NamespacedName{Name: "a"}, UID: "u1"},
		},
		"labeled": {
			meta.RESTScopeNamespace, labeled,
			Parent{Key: types.NamespacedName{Namespace: "there", Name: "a"}, UID: "u1", CrossNamespace: true},
		},
		"labeled, and applied by another manager":  {meta.RESTScopeNamespace, foreign, Parent{}},
		"labeled, and controlled by another owner": {meta.RESTScopeNamespace, both, Parent{}},
		"unowned": {meta.RESTScopeNamespace, metav1.ObjectMeta{Namespace: "here"}, Parent{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(kind, test.scope)
			k := &Kinds{Operator: "us", Mapper: mapper, Primary: kind}
			if got := k.ParentOf(&corev1.ConfigMap{ObjectMeta: test.of}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestRequestsOfUnwatchedParents covers cluster-scoped children, and children in a shared namespace, of an object that
// another instance of the operator reconciles.
func TestRequestsOfUnwatchedParents(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}
	mapper.Add(kind, meta.RESTScopeNamespace)
	v := &Cache{
		Kinds:  &Kinds{Operator: "us", Mapper: mapper, Primary: kind},
		scopes: map[string]*scope{"ours": {}, "shared": {}},
	}
	for parent, want := range map[string]int{"ours": 1, "theirs": 0} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shared", Name: "a",
			Labels:      map[string]string{apply.OwnerUIDLabel: "u1"},
			Annotations: map[string]string{apply.OwnerAnnotation: parent + "/a"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
			}},
		}}
		if got := v.parentRequests(t.Context(), child); len(got) != want {
			t.Errorf("a parent in namespace %q: %v, want %d", parent, got, want)
		}
	}
}
