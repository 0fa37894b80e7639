package policy_test

import (
	"testing"
	"time"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
)

// A VolumeSnapshot without a schedule that failed is repeated spec.backoffLimit times, each time under another name. A Job
// repeats the attempts at a dump itself.
func TestOneShotIsRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method   v1.SnapshotMethod
		limit    *int32
		succeeds int // the attempt that succeeds; 0 means none
		attempts int
		phase    v1.SnapshotPhase
	}{
		"default":           {v1.MethodVolumeSnapshot, nil, 0, 3, v1.SnapshotFailed},
		"no retry":          {v1.MethodVolumeSnapshot, new(int32(0)), 0, 1, v1.SnapshotFailed},
		"second succeeds":   {v1.MethodVolumeSnapshot, new(int32(3)), 2, 2, v1.SnapshotSucceeded},
		"last one succeeds": {v1.MethodVolumeSnapshot, new(int32(2)), 3, 3, v1.SnapshotSucceeded},
		"dump":              {v1.MethodDump, nil, 0, 1, v1.SnapshotFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, "")
			s.o.Spec.Method = c.method
			s.o.Spec.BackoffLimit = c.limit
			names := map[string]bool{}
			s.reconcile(time.Second, policy.Attempt{})
			for s.o.Status.Active != nil {
				names[s.o.Status.Active.Name] = true
				s.reconcile(time.Second, policy.Attempt{State: policy.Running, NoDeadline: true})
				if s.o.Status.Phase != v1.SnapshotRunning {
					t.Errorf("attempt %d is %s", len(names), s.o.Status.Phase)
				}
				if len(names) == c.succeeds {
					s.reconcile(time.Second, policy.Attempt{State: policy.Succeeded, Result: policy.Result{Location: "a"}})
					break
				}
				s.reconcile(3*time.Hour, policy.Attempt{State: policy.Running, NoDeadline: true})
				if s.o.Status.Active != nil && s.o.Status.Phase == v1.SnapshotFailed {
					t.Error("it has failed, and another attempt follows")
				}
			}
			if len(names) != c.attempts || s.o.Status.Phase != c.phase {
				t.Errorf("attempts %v, phase %s, want %d, %s", names, s.o.Status.Phase, c.attempts, c.phase)
			}
		})
	}
}
