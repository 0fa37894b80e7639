package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

// Other clients may write the status. Values that the operator never writes are replaced by safe ones.
func TestForgedStatusIsNotTrusted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		forge  func(*v1alpha1.ImmortalContainerStatus)
		want   int64 // the starts after the next pod
	}{
		"negative": {
			"a count begins at 0", func(s *v1alpha1.ImmortalContainerStatus) { s.StartTimes = -5 }, 1,
		},
		"overflow": {
			"one more would be negative, which the API server rejects for ever",
			func(s *v1alpha1.ImmortalContainerStatus) { s.StartTimes = math.MaxInt64 }, math.MaxInt64,
		},
		"never": {
			"no backoff is longer than spec.restart.maxBackoff",
			func(s *v1alpha1.ImmortalContainerStatus) { s.NextStartTime = new(at(1000 * time.Hour)) }, 1,
		},
		"failures": {
			"no wait depends on a negative count",
			func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveFailures = math.MinInt32 }, 1,
		},
		"many failures": {
			"one more would be negative",
			func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveFailures = math.MaxInt32 }, 1,
		},
	} {
		ic := newContainer()
		policy.Next(ic, nil, noon)
		c.forge(&ic.Status)
		if d := policy.Next(ic, nil, noon); d.After > v1alpha1.DefaultMaxBackoff+time.Second {
			t.Errorf("%s: the next start is after %v: %s", name, d.After, c.reason)
		}
		policy.Next(ic, pod("a", ended("Failed", "Error", 1)), noon)
		if s := ic.Status; s.StartTimes != c.want || s.ConsecutiveFailures <= 0 {
			t.Errorf("%s: %d starts, want %d, and %d failures: %s", name, s.StartTimes, c.want, s.ConsecutiveFailures, c.reason)
		}
	}
}
