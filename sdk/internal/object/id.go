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

// String returns "Kind name".
func (id ID) String() string { return fmt.Sprintf("%s %s", id.GVK.Kind, id.Key.Name) }
