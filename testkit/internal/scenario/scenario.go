package scenario

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"
)

// DefaultTimeout is how long a Wait waits that does not say how long.
const DefaultTimeout = 30 * time.Second

// A Scenario is what a file says. It may be used from several goroutines as long as none changes it.
type Scenario struct {
	// File is where it was read, as given to Read.
	File string
	// CRDs are the CustomResourceDefinitions that have to be installed before anything else. They are cluster-wide, so
	// installing them is not part of a run.
	CRDs []*unstructured.Unstructured
	// Setup are the objects that exist before the operator starts: see SetUp.
	Setup []*unstructured.Unstructured
	// Steps are what happens, in order. There is at least one.
	Steps []Step

	origin map[*unstructured.Unstructured]located // of the objects of Setup and Steps
}

// A Step is one thing that happens. Exactly one of Apply, Patch and Delete is set.
type Step struct {
	// Name is unique in the scenario.
	Name string
	// Position is where the step begins.
	Position Position
	// Apply are objects that are created or changed to be like this, as by `kubectl apply --server-side`.
	Apply []*unstructured.Unstructured
	// Patch changes an object that exists.
	Patch *Patch
	// Delete is an object that is deleted. It exists, and may still do so for a while.
	Delete *Target
	// Waits are met, one after the other, before the step is done.
	Waits []Wait
}

// A Target names an object in the run's namespace, or a cluster-wide one.
type Target struct {
	Kind schema.GroupVersionKind
	Name string
}

// String is for example "Deployment web".
func (t Target) String() string { return t.Kind.Kind + " " + t.Name }

func (t Target) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(t.Kind)
	u.SetName(t.Name)
	return u
}

// A Patch is a JSON merge patch: what it does not mention stays, and null removes.
type Patch struct {
	Target

	// Subresource is "status", or empty for the object itself.
	Subresource string
	Merge       map[string]any
}

// A Wait says what has to be true of an object. Exactly one of Condition, Field and Exists is set.
type Wait struct {
	Target

	// Position is where it begins.
	Position Position
	// Condition is the type of a condition that has to have this status, for the current generation of the object's
	// spec.
	Condition string
	Status    metav1.ConditionStatus
	// Field is a path into the object, as kubectl's JSONPath has it, which has to lead to Value; if HasValue is
	// false, to anything.
	Field    string
	Value    any
	HasValue bool
	// Exists says whether the object has to be there.
	Exists *bool
	// Timeout is how long it may take.
	Timeout time.Duration

	path *jsonpath.JSONPath // of Field
}

// A Position is a place in a file.
type Position struct {
	File string
	Line int
}

// String is what editors and terminals make a link of.
func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// An Error is a mistake in a scenario or in a file that it names.
type Error struct {
	Position Position
	// Message says in one sentence what is wrong and how to put it right.
	Message string
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Message }
