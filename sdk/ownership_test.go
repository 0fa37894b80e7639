package sdk

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

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
		want  parent
	}{
		"controlled": {
			meta.RESTScopeNamespace,
			metav1.ObjectMeta{Namespace: "here", OwnerReferences: []metav1.OwnerReference{reference}},
			parent{key: types.NamespacedName{Namespace: "here", Name: "a"}, uid: "u1"},
		},
		"controlled by a cluster-scoped object": {
			meta.RESTScopeRoot,
			metav1.ObjectMeta{Namespace: "here", OwnerReferences: []metav1.OwnerReference{reference}},
			parent{key: types.NamespacedName{Name: "a"}, uid: "u1"},
		},
		"labeled": {
			meta.RESTScopeNamespace, labeled,
			parent{key: types.NamespacedName{Namespace: "there", Name: "a"}, uid: "u1", crossNamespace: true},
		},
		"labeled, and applied by another manager":  {meta.RESTScopeNamespace, foreign, parent{}},
		"labeled, and controlled by another owner": {meta.RESTScopeNamespace, both, parent{}},
		"unowned": {meta.RESTScopeNamespace, metav1.ObjectMeta{Namespace: "here"}, parent{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(kind, test.scope)
			k := &kinds{operator: "us", mapper: mapper, primary: kind}
			if got := k.parentOf(&corev1.ConfigMap{ObjectMeta: test.of}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestCrossNamespaceChildren checks that a child is cross-namespace only if an owner reference is not possible.
func TestCrossNamespaceChildren(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	s := newSnapshot(&kinds{scheme: scheme.Scheme, mapper: mapper})
	there := metav1.ObjectMeta{Namespace: "there"}
	for name, test := range map[string]struct {
		home           string
		child          metav1.ObjectMeta
		node           bool
		want           string
		crossNamespace bool
	}{
		"in its parent's namespace":                  {home: "here", want: "here"},
		"in another namespace":                       {home: "here", child: there, want: "there", crossNamespace: true},
		"cluster-scoped":                             {home: "here", node: true, crossNamespace: true},
		"of a cluster-scoped parent":                 {child: there, want: "there"},
		"cluster-scoped, of a cluster-scoped parent": {node: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &plannedChild{desired: &corev1.ConfigMap{ObjectMeta: test.child}}
			if test.node {
				st.desired = &corev1.Node{ObjectMeta: test.child}
			}
			if err := s.identify(st, test.home); err != nil {
				t.Fatal(err)
			}
			if st.key.Namespace != test.want || st.crossNamespace != test.crossNamespace {
				t.Errorf("namespace %q and cross-namespace %t, want %q and %t", st.key.Namespace, st.crossNamespace, test.want,
					test.crossNamespace)
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
	v := &readCache{
		kinds:  &kinds{operator: "us", mapper: mapper, primary: kind},
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
