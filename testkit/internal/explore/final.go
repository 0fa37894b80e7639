package explore

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// This file ends runs that fail before their timeout.

const (
	// finalQuiet is the minimum time without activity after which the state may be final.
	finalQuiet = 2500 * time.Millisecond
	// stepsPerQuiet is that time as a multiple of the longest step of a baseline run.
	stepsPerQuiet = 3
)

// isFinal reports whether the operator will not change the state any more, and nothing has happened for a while. Either the
// operator is known to have nothing to do and has received all events, or an earlier run with the fault waited in vain in
// the same state. It is false whenever that is not certain.
func (r *run) isFinal(ctx context.Context, step int, idle func() (time.Duration, bool)) bool {
	if r.plan.HasLeaderElection() || !r.procs.isRunning() {
		return false
	}
	quiet := max(finalQuiet, stepsPerQuiet*r.x.longestStep, r.x.StepQuietPeriod, r.startQuietPeriod())
	if since, ok := idle(); !ok || min(since, r.sinceLastRequest(), r.idle.SinceLastChange()) < quiet {
		return false
	}
	hasNothingToDo := r.procs.areIdleFor(r.x.Timeout) && r.hasOpenWatches() && r.observedLatest()
	return (hasNothingToDo || r.x.persistent.has(func() string { return r.difference(step) })) &&
		r.idle.HasBeenIdle(ctx, quiet, idle) && !r.idle.IsStarved() && !r.isBehind()
}

// difference identifies a fault and the difference of the state after a step from the baseline.
func (r *run) difference(step int) string {
	return r.plan.Fault + " " + r.after(step) + "\n" + r.diff(step)
}

// differences holds the differences that have persisted until the timeout. It is safe for concurrent use.
type differences struct {
	mu  sync.Mutex
	all map[string]bool
}

func (d *differences) add(difference string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]bool{}
	}
	d.all[difference] = true
}

// has reports whether there is a difference. It calls the function only if there are any.
func (d *differences) has(difference func() string) bool {
	d.mu.Lock()
	none := len(d.all) == 0
	d.mu.Unlock()
	if none {
		return false
	}
	now := difference()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[now]
}

// sinceLastRequest returns the time since the operator's last request, also one without an effect.
func (r *run) sinceLastRequest() time.Duration {
	var last time.Duration
	for _, c := range r.operator.Calls() {
		if !intercept.IsLease(c.Request) {
			last = max(last, c.Began, c.Ended)
		}
	}
	return time.Since(r.operator.Began()) - last
}

// hasOpenWatches reports whether each process watches all kinds that it has listed or watched, and no event is delayed. A
// client opens a watch that has ended after a pause, and a kind that it does not watch may be polled.
func (r *run) hasOpenWatches() bool {
	for number := range r.procs.running() {
		if !containsAll(r.operator.Watching(number), r.operator.Opened(number)) {
			return false
		}
	}
	return true
}

// observedLatest reports whether the operator has received the last version of each changed object, as far as it watches
// the kind.
func (r *run) observedLatest() bool {
	told := map[intercept.Frame]bool{}
	for _, f := range r.operator.Frames() {
		told[intercept.Frame{Kind: f.Kind, Name: f.Name, Version: f.Version}] = true
	}
	listed := r.lastLists()
	last := map[types.UID]history.Change{}
	for _, c := range r.log.Changes()[len(r.initial):] {
		last[c.Object.GetUID()] = c
	}
	for _, c := range last {
		f := intercept.Frame{Kind: groupResourceOf(c), Name: c.Object.GetName(), Version: c.Object.GetResourceVersion()}
		if at, ok := listed[f.Kind]; ok && !told[f] && !at.After(c.At) {
			return false
		}
	}
	return true
}

// lastLists returns when the running processes have last listed each kind: the earliest time of all processes.
func (r *run) lastLists() map[intercept.GroupResource]time.Time {
	times := map[intercept.GroupResource]time.Time{}
	for number := range r.procs.running() {
		own := map[intercept.GroupResource]time.Time{}
		for _, kind := range r.operator.Opened(number) {
			own[kind] = time.Time{}
		}
		for _, c := range r.operator.Calls() {
			if c.Process == number && c.Verb == "list" && c.Ended > 0 {
				own[intercept.GroupResourceOf(c.Request)] = r.operator.Began().Add(c.Began)
			}
		}
		for kind, at := range own {
			if other, ok := times[kind]; !ok || at.Before(other) {
				times[kind] = at
			}
		}
	}
	return times
}
