package quiescence_test

import (
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
)

// A time in which the machine did not run this process says nothing about the operator. A gap between two observations
// has the same effect.
func TestGapIsNotIdleTime(t *testing.T) {
	t.Parallel()
	operator := intercept.New(nil)
	idle := (&quiescence.Detector{Operator: operator}).OperatorIdle()
	observe := func(after, atLeast, atMost time.Duration) {
		t.Helper()
		<-time.After(after)
		if got, still := idle(); !still || got < atLeast || got > atMost {
			t.Errorf("idle for %v (%v), want %v to %v", got, still, atLeast, atMost)
		}
	}
	const gap, most = 400 * time.Millisecond, 100 * time.Millisecond
	observe(0, 0, most)
	observe(gap, most, 2*most)
	observe(gap, 2*most, 3*most)
	operator.ResetIdleTime()
	observe(gap, most, most)
}
