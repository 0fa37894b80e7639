package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/status"
)

// decidePending decides about a workload that is not up to date. The result of its last rollout matters to other workloads
// until then.
func (d *decider) decidePending(decide func()) {
	last, deadline := d.decision.Record.Last, time.Duration(0)
	if last != nil && last.Result == "" && d.Template == last.To {
		deadline = d.checkResult()
		d.decision.Action = Nothing
	}
	decide()
	if deadline > 0 && d.decision.Action == Wait && (d.decision.RequeueAfter == 0 || deadline < d.decision.RequeueAfter) {
		d.decision.RequeueAfter = deadline
	}
}

func (d *decider) decideRollout() {
	if d.Settings.DryRun {
		d.clearPending()
		d.wait("DryRun", "it would roll to %s because of %s", status.ShortDigest(d.current), status.Sources(d.decision.Changed))
		return
	}
	if !d.recordPending() {
		return
	}
	if d.holds(annotation.Holds, annotation.HoldsSources) {
		d.waitForCorrection()
		return
	}
	if d.Status.Paused {
		d.wait("Paused", "spec.paused is true: it rolls when that ends")
		return
	}
	if !d.quietPeriodOver() || !d.revertBackoffOver() || d.heldByFailure() {
		return
	}
	if opens := d.Settings.Window.Opens(d.Now); opens.After(d.Now) {
		d.wait("OutsideWindow", "it rolls when its window opens")
		d.decision.RequeueAfter = opens.Sub(d.Now)
		return
	}
	if d.decision.Ready = true; !d.Slot {
		d.decision.Action = Wait
		d.decision.WaitReason = "Slot"
		return
	}
	d.startRollout()
}

// holds reports whether an annotation that cannot be read has one of these effects.
func (d *decider) holds(effects ...annotation.Effect) bool {
	return slices.ContainsFunc(d.Invalid, func(i annotation.Invalid) bool { return slices.Contains(effects, i.Effect) })
}

// waitForCorrection waits until all annotations can be read. State has the message already.
func (d *decider) waitForCorrection() {
	d.decision.Action = Wait
	d.decision.WaitReason = status.InvalidAnnotation
}

// clearPending takes back that something is pending.
func (d *decider) clearPending() {
	r := &d.decision.Record
	r.Pending = ""
	r.Since = time.Time{}
	r.Changed = time.Time{}
}

// recordPending records the pending change, and reports whether to continue. Not every change of a fast series is written.
func (d *decider) recordPending() (goOn bool) {
	r := &d.decision.Record
	switch {
	case r.Pending == "" || r.Since.IsZero() || r.Changed.IsZero():
		r.Since = d.Now
		event := status.Event{Reason: "RolloutPending", Message: status.Sources(d.decision.Changed) + " changed"}
		if d.reverted() {
			event = status.Event{
				Warning: true, Reason: "RolloutReverted",
				Message: "a user or another controller removed the digest of the last rollout from the pod template",
			}
		}
		d.decision.Events = append(d.decision.Events, event)
	case r.Pending == d.current || !d.Now.Before(d.latestStart()):
		return true
	default:
		if rest := r.Changed.Add(min(time.Second, d.Settings.Quiet/5)).Sub(d.Now); rest > 0 {
			d.decision.Action = Wait
			d.decision.WaitReason = "QuietPeriod"
			d.decision.RequeueAfter = rest
			return false
		}
	}
	r.Pending = d.current
	r.Changed = d.Now
	return true
}

// maxQuietPeriods limits the delay by a series of changes, in quiet periods.
const maxQuietPeriods = 10

func (d *decider) latestStart() time.Time {
	return d.decision.Record.Since.Add(maxQuietPeriods * d.Settings.Quiet)
}

func (d *decider) quietPeriodOver() bool {
	until := d.decision.Record.Changed.Add(d.Settings.Quiet)
	if latest := d.latestStart(); latest.Before(until) {
		until = latest
	}
	if rest := until.Sub(d.Now); rest > 0 {
		d.decision.Action = Wait
		d.decision.WaitReason = "QuietPeriod"
		d.decision.RequeueAfter = rest
		return false
	}
	return true
}

// reverted reports whether the content is that of the last rollout and its digest is no longer in the template.
func (d *decider) reverted() bool {
	last := d.Record.Last
	return last != nil && last.To == d.current && d.Template != d.current && last.Result != annotation.RolledBack
}

// A digest that was removed for the first time is restored at once: that was a manual undo. Then the backoff grows,
// because another manager keeps writing the template.
const (
	initialBackoff = time.Minute
	maxBackoff     = 6 * time.Hour
)

func (d *decider) revertBackoffOver() bool {
	last := d.Record.Last
	if !d.reverted() || last.Reverts == 0 {
		return true
	}
	pause := min(initialBackoff<<min(last.Reverts-1, 16), maxBackoff)
	rest := last.Time.Add(pause).Sub(d.Now)
	if rest <= 0 {
		return true
	}
	d.wait("BackOff", "another controller removes annotation %s from the pod template again and again: configure it to keep it",
		annotation.Digest)
	d.decision.RequeueAfter = rest
	return false
}

// heldByFailure reports whether another workload failed with the same change.
func (d *decider) heldByFailure() bool {
	if d.Settings.OnFailure == annotation.Continue {
		return false
	}
	for _, source := range d.decision.Changed {
		if other := d.Failed[source]; other != "" {
			d.wait(RolloutHeld, "others failed with the present content of %s: correct it, or set %s to Continue",
				source, annotation.OnFailure)
			d.messages[len(d.messages)-1].Detail = other + " failed"
			return true
		}
	}
	return false
}

func (d *decider) startRollout() {
	r := &d.decision.Record
	d.decision.Since = r.Since
	d.decision.Lag = d.Now.Sub(r.Since)
	from := d.Template
	if from == "" {
		from = r.Observed
	}
	reverts := 0
	if d.reverted() {
		reverts = r.Last.Reverts + 1
	}
	*r = annotation.Record{
		Observed: d.current, Sources: digest.Sums(d.Sources), References: d.References,
		Last: &annotation.Rollout{
			Time: d.Now, Sources: d.decision.Changed, From: from, To: d.current, Before: d.Template, Reverts: reverts,
			ExceededBefore: d.Status.ExceededAt, Unready: d.blockedByUnreadyPod(),
		},
	}
	d.decision.Action = Roll
	d.decision.Template = d.current
	if d.Template == d.current { // after a rollback, a template without a digest is a new template too
		r.Template = annotation.None
		r.Last.Result = annotation.Completed
		d.decision.Template = ""
	}
	started := fmt.Sprintf("rolling to %s because of %s", status.ShortDigest(d.current), status.Sources(d.decision.Changed))
	d.decision.Events = append(d.decision.Events, status.Event{Reason: "RolloutStarted", Message: started})
	if d.Status.Manual {
		r.Last.Result = annotation.Completed
		d.decision.Events = append(d.decision.Events, status.Event{
			Warning: true, Reason: restartNeeded,
			Message: "the update strategy is OnDelete: the pod template is up to date; delete each pod to update it",
		})
	}
}

// blockedByUnreadyPod reports whether Kubernetes will wait for an unready pod of an unfinished rollout.
func (d *decider) blockedByUnreadyPod() bool {
	last := d.Record.Last
	unfinished := last != nil && last.Result != annotation.Completed && last.Result != annotation.Superseded
	return unfinished && d.Status.Ordered && !d.Status.Complete
}
