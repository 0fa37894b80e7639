// Package desired holds the definition of an operator and the record of one reconcile: the children in their desired state,
// and the outcome of applying each of them.
//
// A [Pass] is the input and the record of one reconcile. Package sdk fills it on behalf of the operator's function; packages
// reconciler and planner carry it out. Nothing here makes a request, except for the functions of the operator itself.
package desired

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// Object is a custom resource.
type Object interface {
	client.Object
	CommonStatus() *conditions.Status
}

// Definition is the definition of an operator, independent of the Go type of its objects. All functions are set, except
// Finalize, Summarize and Orphan.
type Definition struct {
	Name            string
	FinalizerName   string
	FinalizeTimeout time.Duration
	Resync          time.Duration
	Owns            []client.Object
	Observes        []client.Object
	External        ExternalEngine // nil if there are no external resources
	Decorates       bool           // its kind may be a built-in one, whose Go type AddToScheme replaces

	AddToScheme    func(*runtime.Scheme) error
	Validate       func() error
	New            func() Object // returns an empty object of the operator's kind
	Reconcile      func(context.Context, *Pass) error
	Finalize       func(context.Context, *Pass) error
	Summarize      func(Object)
	Orphan         func(client.Object) bool // nil orphans no child by its content
	NeedsFinalizer func(Object) bool
	Selects        func(types.NamespacedName) bool
	Connect        Connect // optional
	Paused         func(Object) bool
	DryRun         func(Object) bool
}

// Annotations that control the operator of an object; see their constants in package sdk.
const (
	PausedAnnotation  = "homeostat.dev/paused"
	DryRunAnnotation  = "homeostat.dev/dry-run"
	ReleaseAnnotation = "homeostat.dev/release"
)

// Kinds returns the kinds of the operator.
func (op *Definition) Kinds(scheme *runtime.Scheme, mapper meta.RESTMapper) (*observed.Kinds, error) {
	return observed.NewKinds(op.Name, op.FinalizerName, op.New(), op.Owns, op.Observes, scheme, mapper)
}

// IsOrphan reports whether the operator orphans a child of that kind in this pass where it would delete it.
func (op *Definition) IsOrphan(p *Pass, gvk schema.GroupVersionKind, child client.Object) bool {
	return slices.Contains(p.OrphanKinds, gvk) || op.Orphan != nil && op.Orphan(object.Copy(child))
}

// PausedBy returns the source of a pause, "" if the object is not paused.
func (op *Definition) PausedBy(o Object) string {
	switch {
	case o.GetAnnotations()[PausedAnnotation] == "true":
		return "annotation " + PausedAnnotation + " is set"
	case op.Paused(o):
		return "its spec asks for a pause"
	default:
		return ""
	}
}

// IsDryRun reports whether the operator only plans the writes for the object.
func (op *Definition) IsDryRun(o Object) bool {
	return o.GetAnnotations()[DryRunAnnotation] == "true" || op.DryRun(o)
}

// ExternalKinds returns the names of the kinds of external resources.
func (op *Definition) ExternalKinds() []string {
	if op.External == nil {
		return nil
	}
	return op.External.Kinds()
}
