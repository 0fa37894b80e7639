package explore

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// Check is a rule that must hold whenever the operator is idle: after each step, and after the deletion of the custom
// resources.
type Check struct {
	Name string
	// Holds returns a description of the violation, or "".
	Holds func(s *space.Space) string
}

// checkIdle evaluates the checks after a step.
func (r *run) checkIdle(step int) {
	for _, check := range r.x.Checks {
		if violation := check.Holds(r.space); violation != "" {
			r.addViolation(oracleInvariant, fmt.Sprintf("%s %s: %s", r.after(step), check.Name, violation), "")
		}
	}
}

// endRun runs Options.AfterRun.
func (r *run) endRun() {
	if r.x.AfterRun != nil && r.space.IsOpen() && r.space.Context().Err() == nil {
		r.space.Check(r.x.AfterRun(r.space))
	}
}
