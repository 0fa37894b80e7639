package desired

import (
	"context"

	"github.com/homeostat-dev/homeostat/sdk/external"
)

// ExternalEngine makes the requests for the external resources of an operator's objects. Package remote implements it. Only
// the value in sdk.Operator.External refers to that package: the program of an operator without external resources does not
// contain it.
type ExternalEngine interface {
	// Validate returns an error that names every mistake in the kinds.
	Validate() error
	// Kinds returns the names of the kinds.
	Kinds() []string
	// Apply makes the requests of a reconcile. The records of the resources are in the status of p.Object afterwards, and
	// what they wait for is in p.ExternalErr. If the record of the reconcile is complete, the others are deleted.
	Apply(ctx context.Context, p *Pass, connect Connect, m ExternalMemory, complete bool)
	// Delete deletes the resources of an object that is being deleted, the newest first. It returns nil when all are gone.
	Delete(ctx context.Context, p *Pass, connect Connect, m ExternalMemory) error
	// Plan returns the requests that a reconcile would make.
	Plan(p *Pass) []ExternalAction
}

// Connect returns the connection for a kind, as sdk.Operator.Connect does. Nil means that there is none.
type Connect func(ctx context.Context, p *Pass, kind string) (external.Connection, error)

// ExternalMemory is what the process knows of the external resources of one object. Losing it causes only lookups.
type ExternalMemory map[string]any

// ExternalAction is one planned request.
type ExternalAction struct {
	Verb, Kind, Name string
	Input            string // empty for a deletion
}

// ExternalResource is a desired external resource.
type ExternalResource struct {
	Kind, Name string
	Input      string // JSON
}

// HasExternal reports whether the object has, or is about to have, external resources.
func (p *Pass) HasExternal() bool {
	stored := ExternalOf(p.Object)
	return len(p.External) > 0 || stored != nil && len(stored.External) > 0
}

// ExternalOf returns the external resources in the status of an object, or nil if its kind has none.
func ExternalOf(o Object) *external.Resources {
	if e, ok := o.(external.Object); ok {
		return e.ExternalResources()
	}
	return nil
}
