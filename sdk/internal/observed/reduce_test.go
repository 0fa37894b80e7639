package observed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// The cache keeps children and observed objects as they are, and of other objects with the operator's label what identifies
// them.
func TestReduceForeign(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	v := &Cache{Kinds: &Kinds{
		Operator: "us", Mapper: mapper, Primary: kind, Scheme: scheme.Scheme,
		Observed: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")},
	}}
	large := strings.Repeat("x", 1<<20)
	of := func(controllerKind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "n", Name: "a", UID: "u", ResourceVersion: "1", Annotations: map[string]string{"large": large},
			Labels: map[string]string{ManagedByLabel: "us", "more": large},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "example.com/v1", Kind: controllerKind, Name: "t", UID: "o", Controller: new(true),
			}},
		}
	}
	for name, c := range map[string]struct {
		object  client.Object
		reduced bool
	}{
		"a child":            {&corev1.ConfigMap{ObjectMeta: of("Thing"), Data: map[string]string{"k": large}}, false},
		"an observed object": {&corev1.Pod{ObjectMeta: of("Other"), Spec: corev1.PodSpec{Hostname: large}}, false},
		"a foreign object":   {&corev1.ConfigMap{ObjectMeta: of("Other"), Data: map[string]string{"k": large}}, true},
		"foreign metadata": {
			&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: of("Other")}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := c.object.DeepCopyObject()
			x, err := v.reduceForeign(apply.TrimManagedFields("us"))(c.object)
			if err != nil {
				t.Fatal(err)
			}
			if !c.reduced {
				if diff := cmp.Diff(was, x); diff != "" {
					t.Error(diff)
				}
				return
			}
			got, _ := x.(client.Object)
			want := metav1.ObjectMeta{
				Namespace: "n", Name: "a", UID: "u", ResourceVersion: "1", Labels: map[string]string{ManagedByLabel: "us"},
				OwnerReferences: of("Other").OwnerReferences,
			}
			kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: got.GetNamespace(), Name: got.GetName(), UID: got.GetUID(), ResourceVersion: got.GetResourceVersion(),
				Labels: got.GetLabels(), Annotations: got.GetAnnotations(), OwnerReferences: got.GetOwnerReferences(),
			}}
			if diff := cmp.Diff(want, kept.ObjectMeta); diff != "" {
				t.Error(diff)
			}
			if m, ok := got.(*corev1.ConfigMap); ok && m.Data != nil {
				t.Error("the data are kept")
			}
		})
	}
}
