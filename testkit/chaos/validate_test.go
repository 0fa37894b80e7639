package chaos

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	step := func(name string) Step { return Step{Name: name, Do: func(*testkit.K) {}} }
	for name, test := range map[string]struct {
		scenario Scenario
		faults   Faults
		without  []string
		want     string
	}{
		"Fine":          {Scenario{step("create")}, Faults{Crash, WatchBroken, "drift-edited"}, []string{"end-state"}, ""},
		"NoStep":        {nil, All, nil, "the scenario has no step"},
		"NoFunction":    {Scenario{{Name: "create"}}, All, nil, "step 1"},
		"SameName":      {Scenario{step("create"), step("create")}, All, nil, "step 2"},
		"UnknownFault":  {Scenario{step("create")}, Faults{"crsh"}, nil, `there is no fault "crsh" to be tried: the faults are`},
		"UnknownOracle": {Scenario{step("create")}, All, []string{"end"}, `there is no oracle "end"`},
	} {
		c := &config{Options: explore.Options{
			Faults: test.faults, Exceptions: explore.Exceptions{DisabledOracles: test.without},
		}}
		err := validate(test.scenario, c)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for _, fault := range []string{
		Crash, Error, LostResponse, Conflict, Lag, Down, Missed, WatchClosed, WatchBroken, WatchExpired, Drift, Deleted, Failover,
		NamespaceDeleted, DriftMetadata, FailoverPaused,
	} {
		if !explore.IsFault(fault) {
			t.Errorf("%s matches no fault", fault)
		}
	}
}
