package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/remote"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// External records a resource outside of the cluster in its desired state, and returns what the status tells of it. The
// name, a DNS label, identifies it within p.Object and the kind. After the plan, the engine makes at most one request for it
// and stores the result; the next reconcile follows at once and sees it. Until the resource is in its desired state, and a
// reconcile has seen its outputs, p.Object is not ready. A resource that a complete reconcile does not record is deleted,
// and all are deleted with p.Object: see package external.
//
// A child that needs the resource is applied as soon as the resource exists ([external.Resource.Exists]), and held back
// ([HoldBack]) before: a child that is not applied is deleted. Reconcile may also return [Wait] after it has recorded the
// resource: the requests are made, and neither children nor other external resources are changed or deleted.
func External[In any, T Object](p *Pass[T], kind *external.Kind[In], name string, in In) external.Resource {
	input, err := json.Marshal(in)
	problems := validation.IsDNS1123Label(name)
	same := func(r desired.ExternalResource) bool { return r.Kind == kind.Name && r.Name == name }
	switch {
	case !slices.ContainsFunc(p.record.ExternalKinds, func(k string) bool { return k == kind.Name }):
		p.record.Fail(fmt.Errorf("external kind %s is not in Operator.External: add it", kind.Name))
	case len(problems) > 0:
		p.record.Fail(fmt.Errorf("the name %q of an external resource of kind %s: %s", name, kind.Name, problems[0]))
	case err != nil:
		p.record.Fail(fmt.Errorf("encoding the input of %s %s: %w", kind.Name, name, err))
	case slices.ContainsFunc(p.record.External, same):
		p.record.Fail(fmt.Errorf("external resource %s %s is recorded twice in one pass", kind.Name, name))
	}
	p.record.External = append(p.record.External, desired.ExternalResource{Kind: kind.Name, Name: name, Input: string(input)})
	if stored := desired.ExternalOf(p.Object); stored != nil {
		for _, r := range stored.External {
			if r.Kind == kind.Name && r.Name == name {
				return *r.DeepCopy()
			}
		}
	}
	return external.Resource{Kind: kind.Name, Name: name}
}

// ExternalKindSet is a set of kinds of external resources: see [ExternalKinds]. The zero value has none.
type ExternalKindSet struct{ engine desired.ExternalEngine }

// ExternalKinds returns the value of [Operator.External] for these kinds, which are values of external.Kind. Mistakes in
// them are errors of [Operator.SetupWithManager].
func ExternalKinds(kinds ...external.Definition) ExternalKindSet {
	return ExternalKindSet{remote.NewKinds(kinds...)}
}

// validateExternal returns an error that lists every mistake in the external kinds.
func (op *Operator[T]) validateExternal() error {
	if op.External.engine == nil {
		if op.Connect != nil {
			return errors.New("field Connect is set without External")
		}
		return nil
	}
	err := op.External.engine.Validate()
	if _, ok := any(object.New[T]()).(external.Object); !ok {
		err = errors.Join(err, errors.New("field External is set, and the kind has no ExternalResources method: embed "+
			"external.Resources in its status"))
	}
	return err
}

// connect calls the operator's Connect with a [Pass] of its own, of which only the references are kept.
func (op *Operator[T]) connect(ctx context.Context, p *desired.Pass, kind string) (external.Connection, error) {
	record := desired.Record{Snapshot: p.Snapshot, Derived: p.Derived, References: p.References}
	connection, err := op.Connect(ctx, &Pass[T]{
		Object: object.Copy(as[T](p.Object)), Log: p.Log, Now: p.Now, Namespaces: p.Namespaces, record: &record,
	}, kind)
	p.References.Used = record.References.Used
	if len(record.Plan)+len(record.External) > 0 {
		record.Fail(errors.New("function Connect applies children or external resources: it may only read"))
	}
	if record.Err != nil {
		return connection, retry.NewPanicError(record.Err)
	}
	return connection, err
}
