// Package quiescence decides whether an operator is idle: it sends no request, receives no event, and nothing changes.
//
// On a busy machine, a slow operator looks idle. All periods are therefore extended by the measured latency of requests.
package quiescence

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// The times without activity after which the state counts as the outcome of a step. A later reaction falls into the next
// step.
const (
	// StepQuietPeriod applies after a step.
	StepQuietPeriod = 30 * time.Millisecond
	// FinalQuietPeriod applies after the last step and after most faults.
	FinalQuietPeriod = 120 * time.Millisecond
)

// Detector observes the operator of one run. Its fields are set before the first call. It is safe for concurrent use.
type Detector struct {
	Space    *space.Space
	Log      *history.Log
	Operator *intercept.Interceptor
	// QuietPeriod is the minimum time without a write for an idle operator in a baseline run.
	QuietPeriod time.Duration
	// StepQuietPeriod extends the constant of the same name.
	StepQuietPeriod time.Duration
	// Timeout is the maximum time until the operator is idle.
	Timeout time.Duration
	// IgnoreWrites allows writes of an idle operator.
	IgnoreWrites bool
	// HistoryShowsWrites reports whether the history shows every write.
	HistoryShowsWrites func() bool

	mu      sync.Mutex
	latency time.Duration // of the last measured request
	tracker changeTracker
}

// HasBeenIdle reports whether there was no activity for the quiet period, or for the duration of a few dozen requests if
// that is longer: on a busy machine a slow operator looks idle. idle returns the time without activity, and false while a
// request is in progress.
func (d *Detector) HasBeenIdle(ctx context.Context, quiet time.Duration, idle func() (time.Duration, bool)) bool {
	d.mu.Lock()
	pace := d.latency
	d.mu.Unlock()
	if got, ok := idle(); !ok || got < d.scaleForLoad(quiet, pace) {
		return false
	}
	pace, err := d.MeasureLatency(ctx)
	if err != nil {
		return false
	}
	got, ok := idle()
	return ok && got >= d.scaleForLoad(quiet, pace) && d.HistoryShowsWrites()
}

// MeasureLatency returns the duration of one request.
func (d *Detector) MeasureLatency(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := d.Space.Client.Get(ctx, client.ObjectKey{Name: d.Space.Namespace}, &corev1.Namespace{})
	pace := time.Since(began)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency = pace
	return pace, err
}

// IsStarved reports whether the machine is so busy that a slow operator proves nothing.
func (d *Detector) IsStarved() bool {
	const much = 100 * time.Millisecond
	pace, err := d.MeasureLatency(d.Space.Context())
	return err == nil && pace > much
}

// scaleForLoad returns the quiet period for a machine on which a request takes pace.
func (d *Detector) scaleForLoad(quiet, pace time.Duration) time.Duration {
	const few, dozens, part = 10, 40, 3
	if quiet < FinalQuietPeriod {
		return max(quiet, few*pace)
	}
	return max(quiet, min(dozens*pace, d.Timeout/part))
}

// WithTimeout returns a context with the operator's timeout, extended on a busy machine.
func (d *Detector) WithTimeout() (context.Context, context.CancelFunc) {
	const ordinary, most = 20 * time.Millisecond, 4
	d.mu.Lock()
	times := min(max(d.latency/ordinary, 1), most)
	d.mu.Unlock()
	return context.WithTimeout(d.Space.Context(), d.Timeout*times) //nolint:durationcheck // times has no unit
}

// WaitOperatorIdle waits until the operator has sent nothing for the quiet period, or returns the error of ctx.
func (d *Detector) WaitOperatorIdle(ctx context.Context, quiet time.Duration) error {
	for idle := d.OperatorIdle(); !d.HasBeenIdle(ctx, quiet, idle); {
		select {
		case <-time.After(StepQuietPeriod / 3):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// WaitIdle waits until the operator is idle with the events that it has received.
func (d *Detector) WaitIdle() {
	ctx, cancel := d.WithTimeout()
	defer cancel()
	_ = d.WaitOperatorIdle(ctx, max(FinalQuietPeriod, d.StepQuietPeriod)) // a timeout is reported at the end of the step
}

// OperatorIdle returns a function that reports how long the operator has sent nothing. If idle writes are allowed, this
// is the time since the call of OperatorIdle. Periodic writes without an effect, at intervals longer than the quiet
// period, do not count.
func (d *Detector) OperatorIdle() func() (idle time.Duration, still bool) {
	const often, forever = 2, time.Hour
	began := time.Now()
	var before time.Duration
	var strokes []time.Time // times of writes after a pause
	return observed(func() (time.Duration, bool) {
		if d.IgnoreWrites {
			return time.Since(began), true
		}
		busy, idle := d.Operator.Busy()
		if idle < before && before >= d.QuietPeriod {
			strokes = append(strokes, time.Now().Add(-idle))
		}
		before = idle
		if len(strokes) >= often && time.Since(strokes[len(strokes)-often]) < d.SinceLastChange() {
			return forever, !busy
		}
		return idle, !busy
	})
}

// observed limits the time without activity to the time in which this process ran. While the machine does not run it, the
// operator does not run, either.
func observed(idle func() (time.Duration, bool)) func() (time.Duration, bool) {
	const most = 100 * time.Millisecond // between two calls
	var seen time.Duration
	last := time.Now()
	return func() (time.Duration, bool) {
		got, still := idle()
		gap := time.Since(last)
		last = last.Add(gap)
		if got < gap {
			seen = 0
		}
		seen += min(got, gap, most)
		return min(got, seen), still
	}
}

// AllIdle is like OperatorIdle, but changes in the namespace count as activity, too.
func (d *Detector) AllIdle() func() (idle time.Duration, still bool) {
	operator := d.OperatorIdle()
	return func() (time.Duration, bool) {
		idle, still := operator()
		if !d.IgnoreWrites {
			idle = min(idle, d.SinceLastChange())
		}
		return idle, still
	}
}

// SinceLastChange returns the time since the last change in the namespace. Events and periodic timestamps do not count.
func (d *Detector) SinceLastChange() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tracker.update(d.Log.Changes())
	if d.tracker.lastChange.IsZero() {
		return time.Since(d.Log.Began)
	}
	return time.Since(d.tracker.lastChange)
}

// IsTimestampUpdate reports whether a version of an object differs from the previous one in periodic timestamps only.
func (d *Detector) IsTimestampUpdate(version string) bool {
	d.SinceLastChange() // updates the tracker
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tracker.timestampUpdates[version]
}
