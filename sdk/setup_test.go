package sdk

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// storedObject is an object with a status that can be copied.
type storedObject struct {
	corev1.ConfigMap

	Status conditions.Status `json:"status"`
}

func (o *storedObject) CommonStatus() *conditions.Status { return &o.Status }

func (o *storedObject) DeepCopyObject() runtime.Object {
	c := *o
	return &c
}

// TestFunctionsShareTheObject checks that functions registered in Reconcile read and write the object that is stored,
// although it was replaced since.
func TestFunctionsShareTheObject(t *testing.T) {
	t.Parallel()
	var seen string
	op := &Operator[*storedObject]{Reconcile: func(_ context.Context, p *Pass[*storedObject]) error {
		p.Object.Name = "changed"
		p.OnPlanExecuted(func([]conditions.Child) { p.Object.Status.ObservedGeneration = 7 })
		p.OnStatusUpdated(func() { seen = p.Object.Name })
		return nil
	}}
	o := &storedObject{}
	o.Name = "stored"
	p := &desired.Pass{Object: object.Copy[desired.Object](o)}
	if err := desired.Compute(t.Context(), o, p, op.definition().Reconcile); err != nil {
		t.Fatal(err)
	}
	if err := p.RunPlanExecutedFuncs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.Object.CommonStatus().ObservedGeneration; got != 7 || p.Object.GetName() != "stored" {
		t.Errorf("object %q with generation %d, want the stored one with the reported status", p.Object.GetName(), got)
	}
	p.StatusUpdatedFuncs[0]()
	if seen != "stored" {
		t.Errorf("after the status update the name is %q, want that of the stored object", seen)
	}
}

// TestConstantsAgree checks the names that the engine defines a second time.
func TestConstantsAgree(t *testing.T) {
	t.Parallel()
	for public, internal := range map[string]string{
		PausedAnnotation: desired.PausedAnnotation, DryRunAnnotation: desired.DryRunAnnotation,
		ReleaseAnnotation: desired.ReleaseAnnotation, ManagedByLabel: observed.ManagedByLabel,
		InstanceLabel: observed.InstanceLabel,
	} {
		if public != internal {
			t.Errorf("%q differs from %q", public, internal)
		}
	}
	if int(Recreate) != int(desired.Recreate) || int(RecreateOrphan) != int(desired.RecreateOrphan) {
		t.Error("the values of ImmutablePolicy differ")
	}
}
