package chaos_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// When the budget is over, no run with a fault is started, also in a short sweep.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		budget    time.Duration
		wantsMore bool
	}{
		"Over":  {time.Nanosecond, false},
		"Ample": {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			baselines := int64(0)
			t.Cleanup(func() {
				if got := runs.Load(); got > baselines != test.wantsMore {
					t.Errorf("%d runs, of which %d without a fault; want runs with a fault: %v", got, baselines, test.wantsMore)
				}
			})
			chaos.Sweep(t, chaos.FromSetup(sealer(false, 0)), chaos.Scenario{writing("hello")},
				chaos.Faults{"crash-after", chaos.Deleted}, chaos.Budget(test.budget), chaos.BeforeRun(key),
				chaos.AfterRun(func(*testkit.K) { runs.Add(1) }))
			baselines = runs.Load() // the runs with a fault are parallel subtests
		})
	}
}
