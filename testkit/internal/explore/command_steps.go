package explore

import (
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
	o.Await = func(in *space.Space, step int) error {
		return s.Steps[step].Await(in.Context(), in.Client, in.Namespace, in.Timeout)
	}
}

// never returns the invariant of a scenario file.
func never(w *scenario.Wait) Invariant {
	return Invariant{Name: w.Position.String(), HoldsIn: w.Violation}
}
