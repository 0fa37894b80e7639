package decision

import (
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// conclude finds out how the last rollout ended.
func (d *decider) conclude() {
	r := &d.do.Record
	if r.Last == nil || r.Last.To != d.current || r.Last.Result == annotation.Completed {
		return
	}
	if r.Last.Result == annotation.RolledBack {
		d.rolledBack()
		return
	}
	if d.Template != d.current { // merged
		return
	}
	d.do.After = d.end()
	d.stuck()
	if r.Last.Result != annotation.Failed {
		return
	}
	if d.Settings.OnFailure == annotation.Rollback {
		d.do.Action, d.do.Result = Rollback, annotation.RolledBack
		r.Last.Result = annotation.RolledBack
		r.Template, d.do.Template = orNone(r.Last.Before), r.Last.Before
		d.rolledBack()
		return
	}
	d.say("RolloutFailed", "the pods do not become available with the present content of %s", d.cause(r.Last.Sources))
}

// stuck tells what nobody but the user can do about a StatefulSet.
func (d *decider) stuck() {
	last := d.do.Record.Last
	if d.Status.Ordered && !d.Status.Complete && (last.Unready || last.Result == annotation.RolledBack) {
		d.say(restartNeeded, "a StatefulSet waits for a pod that is not ready, and does not replace it: "+
			"delete each that has not become ready with an earlier pod template")
	}
}

func (d *decider) rolledBack() {
	d.stuck()
	d.say("RolledBack", "the pods did not become available with the present content of %s: the pod template is what it was, "+
		"and pods that were not replaced yet stay as they are", d.cause(d.do.Record.Last.Sources))
}

// end finds out whether the last rollout has ended, and returns after what time to look again if it has not.
func (d *decider) end() (after time.Duration) {
	was := d.do.Record.Last
	last := *was
	d.do.Record.Last = &last
	switch {
	case d.Status.Complete:
		last.Result = annotation.Completed
		if d.do.Record.Observed == last.To {
			message := "all pods run with " + brief(last.To)
			d.do.Events = append(d.do.Events, Event{Reason: "RolloutCompleted", Message: message})
		}
	case d.Status.Exceeded, was.Result == annotation.Failed:
		last.Result = annotation.Failed
	case was.Result == annotation.Stuck:
		if d.Status.Updated > was.Updated { // somebody has deleted the pod
			last.Result, last.Updated, last.Progressed = "", d.Status.Updated, d.Now
		}
	case d.Status.Watched, d.Status.Manual, d.Status.Paused:
	default:
		after = d.watch(&last)
	}
	if last.Result != was.Result {
		d.do.Result = last.Result
	}
	if last.Result != was.Result || last.Progressed != was.Progressed {
		d.do.Action = Conclude
	}
	return after
}

// watch minds the time where Kubernetes does not: as long as there are more updated pods at each deadline than at the one
// before, the rollout goes on.
func (d *decider) watch(last *annotation.Rollout) (after time.Duration) {
	since := last.Time
	if !last.Progressed.IsZero() {
		since = last.Progressed
	}
	if rest := since.Add(d.Deadline).Sub(d.Now); rest > 0 {
		return rest
	}
	if d.Status.Updated > last.Updated {
		last.Updated, last.Progressed = d.Status.Updated, d.Now
		return d.Deadline
	}
	last.Result = annotation.Failed
	if last.Unready && last.Progressed.IsZero() { // that is not the content's fault
		last.Result, last.Updated = annotation.Stuck, d.Status.Updated
	}
	return 0
}
