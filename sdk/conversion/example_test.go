package conversion_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// A client of the old version changes an object, and does not know the plan.
func Example() {
	k := &conversion.Kind{
		GroupKind: schema.GroupKind{Group: "example.com", Kind: "Team"},
		Hub:       "v1beta1",
		Versions: []conversion.Version{{Name: "v1alpha1", Lenses: []conversion.Lens{
			conversion.Rename("spec.mail", "spec.contact.mail"),
			conversion.HubOnly("spec.plan", "free"),
		}}},
	}
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1beta1", "kind": "Team", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"contact": map[string]any{"mail": "a@example.com"}, "plan": "paid"},
	}}
	read, err := k.Convert(stored, "v1alpha1")
	if err != nil {
		panic(err)
	}
	fmt.Println(read.Object["spec"], conversion.Kept(read.GetAnnotations()))

	read.Object["spec"] = map[string]any{"mail": "b@example.com"}
	written, err := k.Convert(read, "v1beta1")
	if err != nil {
		panic(err)
	}
	fmt.Println(written.Object["spec"], len(written.GetAnnotations()))
	// Output:
	// map[mail:a@example.com] map[v1beta1:[spec.plan]]
	// map[contact:map[mail:b@example.com] plan:paid] 0
}
