package explore

import (
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// Script sets the setup and the steps of an exploration to those of a scenario file.
func (o *Options) Script(s *scenario.Scenario) {
	o.Setup = func(k *testkit.K) {
		if err := s.SetUp(k.Context(), k.Client, k.Namespace); err != nil {
			Fail(k, err)
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		o.Steps = append(o.Steps, Step{Name: step.Name, Do: func(k *testkit.K) {
			if err := step.Act(k.Context(), k.Client, k.Namespace); err != nil {
				Fail(k, err)
			}
		}})
	}
	o.Await = func(k *testkit.K, step int) {
		if err := s.Steps[step].Await(k.Context(), k.Client, k.Namespace); err != nil {
			Fail(k, err)
		}
	}
}
