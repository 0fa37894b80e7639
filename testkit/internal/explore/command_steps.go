package explore

import (
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// Scripted makes the setup and the steps of an exploration from a scenario that was read from a file.
func Scripted(s *scenario.Scenario) (setup func(k *testkit.K), steps []Step) {
	setup = func(k *testkit.K) {
		if err := s.SetUp(k.Context(), k.Client, k.Namespace); err != nil {
			Fail(k, err)
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		steps = append(steps, Step{Name: step.Name, Do: func(k *testkit.K) {
			if err := step.Do(k.Context(), k.Client, k.Namespace); err != nil {
				Fail(k, err)
			}
		}})
	}
	return setup, steps
}
