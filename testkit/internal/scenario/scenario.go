package scenario

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"
)

// DefaultTimeout is the timeout of a Wait without one.
const DefaultTimeout = 30 * time.Second

// A Scenario is the content of a scenario file. It is safe for concurrent use as long as it is not modified.
type Scenario struct {
	// File is its path, as given to Read.
	File string
	// Namespaces are the names of further namespaces, without the name of the run's first namespace.
	Namespaces []string
	// CRDs are the CustomResourceDefinitions that have to be installed before anything else. They are cluster-scoped, so
	// installing them is not part of a run.
	CRDs []*unstructured.Unstructured
	// Setup lists the objects that exist before the operator starts: see SetUp.
	Setup []*unstructured.Unstructured
	// Steps are executed in order. There is at least one.
	Steps []Step
	// Never lists states that must never exist.
	Never []Wait

	origin map[*unstructured.Unstructured]located // of the objects of Setup and Steps
}

// A Step is one action of a user. Exactly one of Apply, Patch and Delete is set.
type Step struct {
	// Name is unique in the scenario.
	Name string
	// Position is the first line of the step.
	Position Position
	// Namespace is the further namespace of the objects that name none. Empty means the first namespace.
	Namespace string
	// Apply lists objects that are created or updated, as by `kubectl apply --server-side`.
	Apply []*unstructured.Unstructured
	// Patch changes an object that exists.
	Patch *Patch
	// Delete is an object to delete. It has to exist, and may remain for a while after the step.
	Delete *Target
	// Waits are met, one after the other, before the step is done.
	Waits []Wait
}

// A Target names an object in a namespace of the run, or a cluster-scoped one.
type Target struct {
	Kind schema.GroupVersionKind
	// Namespace is the name of a further namespace, or empty.
	Namespace string
	// Name may contain placeholders.
	Name string
}

// String returns for example "Deployment web".
func (t Target) String() string {
	name := t.Name
	if t.Namespace != "" {
		name = t.Namespace + "/" + name
	}
	return strings.TrimSpace(t.Kind.Kind + " " + name)
}

func (t Target) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(t.Kind)
	u.SetNamespace(further(t.Namespace))
	u.SetName(t.Name)
	return u
}

// A Patch is a JSON merge patch: unmentioned fields stay, and null removes.
type Patch struct {
	Target

	// Subresource is "status", or empty for the object itself.
	Subresource string
	Merge       map[string]any
}

// A Wait is an expectation of an object's state, or of the number of objects. Exactly one of Condition, Field, Exists and
// Count is set, or Field and Exists.
type Wait struct {
	Target

	// Position is its first line.
	Position Position
	// Condition is the type of a condition that has to have this status for the current generation of the object's spec.
	Condition string
	Status    metav1.ConditionStatus
	// Reason is the reason that the condition has to have, or empty.
	Reason string
	// Field is a JSONPath of kubectl into the object. The field has to equal Value, or only has to exist if HasValue is
	// false. With Exists it has to be absent or to exist.
	Field    string
	Value    any
	HasValue bool
	// Exists is the expected existence of the object, or of the field.
	Exists *bool
	// Count is the expected number of objects of this kind in the namespace with these labels.
	Count  *int
	Labels map[string]string
	// Timeout bounds the wait.
	Timeout time.Duration

	path *jsonpath.JSONPath // of Field
}

// A Position is a line of a file.
type Position struct {
	File string
	Line int
}

// String formats the position as editors and terminals link it.
func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// An Error is a mistake in a scenario or in a file that it names.
type Error struct {
	Position Position
	// Message is one sentence that describes the mistake and its correction.
	Message string
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Message }
