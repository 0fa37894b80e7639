package sdk

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
)

// externalObject is an object with external resources.
type externalObject struct {
	testObject
	Status struct{ external.Resources }
}

func (o *externalObject) ExternalResources() *external.Resources { return &o.Status.Resources }

func newExternalOperator(kinds ...external.Definition) *Operator[*externalObject] {
	return &Operator[*externalObject]{
		Name: "us", AddToScheme: scheme.AddToScheme, External: ExternalKinds(kinds...),
		Reconcile: func(context.Context, *Pass[*externalObject]) error { return nil },
	}
}

func buckets() *external.Kind[string] {
	return &external.Kind[string]{Name: "bucket", API: external.ByTag[string]{
		Operations: external.Operations[string]{
			Observe: func(context.Context, string) (external.State, error) { return external.State{}, nil },
			Delete:  func(context.Context, string) error { return nil },
		},
		Create: func(context.Context, string, string) (external.State, error) { return external.State{}, nil },
		Find:   func(context.Context, string) (external.State, error) { return external.State{}, nil },
	}}
}

// The error of an operator names each mistake in its external kinds.
func TestExternalIsChecked(t *testing.T) {
	t.Parallel()
	nameless := buckets()
	nameless.Name = "Bucket"
	negative := buckets()
	negative.MaxLatency = -1
	unfinished := &external.Kind[string]{Name: "bucket", API: external.ByTag[string]{}}
	once := &external.Kind[string]{Name: "bucket", API: external.AtMostOnce[string]{}}
	for want, kinds := range map[string][]external.Definition{
		"": {buckets()},
		`field Name of external kind "Bucket": a lower`:          {nameless},
		`field API of external kind "bucket" is missing`:         {&external.Kind[string]{Name: "bucket"}},
		"function Find is missing":                               {unfinished},
		"function Create is missing":                             {once},
		`field MaxLatency of external kind "bucket" is negative`: {negative},
		`external kind "bucket" is listed twice`:                 {buckets(), buckets()},
	} {
		err := newExternalOperator(kinds...).validate()
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	op := &Operator[*testObject]{
		Name: "us", AddToScheme: scheme.AddToScheme, External: ExternalKinds(buckets()),
		Reconcile: func(context.Context, *Pass[*testObject]) error { return nil },
	}
	const want = "the kind has no ExternalResources method: embed external.Resources in its status"
	if err := op.validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// Misuse of External fails the pass.
func TestExternalMisuse(t *testing.T) {
	t.Parallel()
	for want, reconcile := range map[string]func(p *Pass[*externalObject]){
		"external kind other is not in Operator.External": func(p *Pass[*externalObject]) {
			External(p, &external.Kind[string]{Name: "other"}, "a", "")
		},
		`the name "A" of an external resource of kind bucket`: func(p *Pass[*externalObject]) {
			External(p, buckets(), "A", "")
		},
		"external resource bucket a is recorded twice": func(p *Pass[*externalObject]) {
			External(p, buckets(), "a", "")
			External(p, buckets(), "a", "")
		},
	} {
		op := newExternalOperator(buckets())
		op.Reconcile = func(_ context.Context, p *Pass[*externalObject]) error {
			reconcile(p)
			return nil
		}
		record := newTestRecord(op)
		if err := op.Reconcile(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if err := record.record.Err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func newTestRecord(op *Operator[*externalObject]) *Pass[*externalObject] {
	return &Pass[*externalObject]{
		Object: &externalObject{}, record: &desired.Record{ExternalKinds: op.definition().ExternalKinds()},
	}
}
