package explore

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Script sets the setup and the steps of an exploration to those of a scenario file.
func (o *Options) Script(s *scenario.Scenario) {
	o.Setup = func(in *space.Space) error { return s.SetUp(in.Context(), in.Client, in.Namespace) }
	for i := range s.Steps {
		step := &s.Steps[i]
		o.Steps = append(o.Steps, Step{Name: step.Name, Do: func(in *space.Space) error {
			return step.Act(in.Context(), in.Client, in.Namespace)
		}})
	}
	for i := range s.Never {
		o.Invariants = append(o.Invariants, never(&s.Never[i]))
	}
	o.Scheme = schemeOf(s.Never)
	o.Await = func(in *space.Space, step int) error {
		return s.Steps[step].Await(in.Context(), in.Client, in.Namespace, in.Timeout)
	}
}

// schemeOf returns a scheme with the versions that the excluded states name, so that the objects are recorded in these. It
// is nil if none is named.
func schemeOf(never []scenario.Wait) *runtime.Scheme {
	if len(never) == 0 {
		return nil
	}
	scheme := runtime.NewScheme()
	for i := range never {
		if kind := never[i].Kind; !scheme.Recognizes(kind) {
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		}
	}
	return scheme
}

// never returns the invariant of a scenario file.
func never(w *scenario.Wait) Invariant {
	return Invariant{Name: w.Position.String(), HoldsIn: w.Violation}
}
