package policy

import (
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/status"
)

// conclude records the result of the last rollout.
func (d *decider) conclude() {
	r := &d.decision.Record
	if r.Last == nil || r.Last.To != d.current || r.Last.Result == annotation.Completed {
		return
	}
	if r.Last.Result == annotation.RolledBack {
		d.reportRolledBack()
		return
	}
	if d.Template != d.current { // merged
		return
	}
	d.decision.RequeueAfter = d.checkResult()
	d.reportStuck()
	if r.Last.Result != annotation.Failed {
		return
	}
	if d.Settings.OnFailure == annotation.Rollback {
		d.decision.Action = Rollback
		d.decision.Result = annotation.RolledBack
		r.Last.Result = annotation.RolledBack
		r.Template = orNone(r.Last.Before)
		d.decision.Template = r.Last.Before
		d.reportRolledBack()
		return
	}
	d.addMessage("RolloutFailed", "the pods do not become available with the present content of %s",
		status.Sources(r.Last.Sources))
}

// reportStuck reports a StatefulSet that needs a manual deletion of a pod.
func (d *decider) reportStuck() {
	last := d.decision.Record.Last
	if d.Status.Ordered && !d.Status.Complete && (last.Unready || last.Result == annotation.RolledBack) {
		d.addMessage(restartNeeded, "a StatefulSet waits for a pod that is not ready, and does not replace it: "+
			"delete each that has not become ready with an earlier pod template")
	}
}

func (d *decider) reportRolledBack() {
	d.reportStuck()
	d.addMessage("RolledBack", "the pods did not become available with the present content of %s: "+
		"the pod template is what it was, and pods that were not replaced yet stay as they are",
		status.Sources(d.decision.Record.Last.Sources))
}

// checkResult checks whether the last rollout has ended. If not, it returns the time until the next check.
func (d *decider) checkResult() (after time.Duration) {
	was := d.decision.Record.Last
	last := *was
	d.decision.Record.Last = &last
	switch {
	case d.Status.Complete:
		last.Result = annotation.Completed
		if d.decision.Record.Observed == last.To {
			message := "all pods run with " + status.ShortDigest(last.To)
			d.decision.Events = append(d.decision.Events, status.Event{Reason: "RolloutCompleted", Message: message})
		}
	case d.Status.DeadlineExceeded, was.Result == annotation.Failed:
		last.Result = annotation.Failed
	case was.Result == annotation.Stuck:
		if d.Status.Updated > was.Updated { // the pod was deleted
			last.Result = ""
			last.Updated = d.Status.Updated
			last.Progressed = d.Now
		}
	case d.Status.Manual, d.Status.Paused:
	case d.Status.Deadline > 0:
		after = d.checkReport(&last)
	default:
		after = d.checkDeadline(&last)
	}
	if last.Result != was.Result {
		d.decision.Result = last.Result
	}
	if last.Result != was.Result || last.Progressed != was.Progressed {
		d.decision.Action = Conclude
	}
	return after
}

// maxReportDelay limits the delay of Kubernetes' report of an exceeded deadline. The delay is also at most the deadline
// itself. The deployment controller retries a conflicting status update, and all its retries share a rate limit of ten a
// second: after a thousand conflicts, a report comes minutes late.
const maxReportDelay = time.Minute

// checkReport ends a rollout of a Deployment whose exceeded deadline is not reported in time, or whose deadline is longer
// than the maximal one, because other workloads wait for its slot.
func (d *decider) checkReport(last *annotation.Rollout) (after time.Duration) {
	since := last.Time
	if d.Status.Progressed.After(since) {
		since = d.Status.Progressed
	}
	deadline := d.Status.Deadline
	if d.MaxDeadline > 0 {
		deadline = min(deadline, d.MaxDeadline)
	}
	if rest := since.Add(deadline + min(deadline, maxReportDelay)).Sub(d.Now); rest > 0 {
		return rest
	}
	if d.Status.Observed { // otherwise the deployment controller is down, and the content is not to blame
		last.Result = annotation.Failed
	}
	return 0
}

// checkDeadline applies the deadline for kinds without one in Kubernetes. The rollout continues while there are more
// updated pods at each deadline than at the one before, and while the controller of the kind has not observed the template:
// it is slow or down, and the content is not to blame.
func (d *decider) checkDeadline(last *annotation.Rollout) (after time.Duration) {
	since := last.Time
	if !last.Progressed.IsZero() {
		since = last.Progressed
	}
	if rest := since.Add(d.Deadline).Sub(d.Now); rest > 0 {
		return rest
	}
	if d.Status.Updated > last.Updated || !d.Status.Observed {
		last.Updated = max(last.Updated, d.Status.Updated)
		last.Progressed = d.Now
		return d.Deadline
	}
	last.Result = annotation.Failed
	if last.Unready && last.Updated == 0 { // the new content did not cause that
		last.Result = annotation.Stuck
		last.Updated = d.Status.Updated
	}
	return 0
}
