// Package adoption decides which existing objects a Database or DBSnapshot adopts as its children.
package adoption

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation on an object, with the name of a Database or DBSnapshot in its namespace, permits that one to adopt the object.
const Annotation = "techoral.com/adopt"

// Permitted returns the predicate for objects that the parent of this name adopts: the children of a predecessor of the same
// name, which this operator created, and objects with the annotation. The label names the parent. The label alone permits
// nothing, because charts set some labels, too: the record of field managers must say that the operator has set it.
func Permitted(manager, label, parent string) func(client.Object) bool {
	return func(o client.Object) bool {
		if o.GetAnnotations()[Annotation] == parent {
			return true
		}
		return o.GetLabels()[label] == parent &&
			slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
				return entry.Manager == manager && entry.FieldsV1 != nil &&
					strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+label+`":`)
			})
	}
}
