package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ID identifies an object by its kind and name.
type ID struct {
	GVK schema.GroupVersionKind
	Key types.NamespacedName
}

// String returns "Kind namespace/name", or "Kind name" for a cluster-scoped object.
func (id ID) String() string { return id.From("") }

// From returns "Kind name" for an object in this namespace and for a cluster-scoped one, else "Kind namespace/name".
func (id ID) From(namespace string) string {
	if id.Key.Namespace == "" || id.Key.Namespace == namespace {
		return fmt.Sprintf("%s %s", id.GVK.Kind, id.Key.Name)
	}
	return fmt.Sprintf("%s %s/%s", id.GVK.Kind, id.Key.Namespace, id.Key.Name)
}
