package decision

import (
	"fmt"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
)

// meanwhile is for a workload that is not up to date. What becomes of its last rollout matters to others until it is.
func (d *decider) meanwhile(decide func()) {
	last, deadline := d.do.Record.Last, time.Duration(0)
	if last != nil && last.Result == "" && d.Template == last.To {
		deadline = d.end()
		d.do.Action = Nothing
	}
	decide()
	if deadline > 0 && d.do.Action == Wait && (d.do.After == 0 || deadline < d.do.After) {
		d.do.After = deadline
	}
}

func (d *decider) catchUp() {
	if d.Settings.DryRun {
		d.forget()
		d.wait("DryRun", "it would roll to %s because of %s", brief(d.current), d.causes())
		return
	}
	if !d.mark() {
		return
	}
	if d.Status.Paused {
		d.wait("Paused", "spec.paused is true: it rolls when that ends")
		return
	}
	if !d.quiet() || !d.patience() || d.held() {
		return
	}
	if opens := d.Settings.Window.Opens(d.Now); opens.After(d.Now) {
		d.wait("OutsideWindow", "it rolls when its window opens")
		d.do.After = opens.Sub(d.Now)
		return
	}
	if d.do.Ready = true; !d.Slot {
		d.do.Action, d.do.Because = Wait, "Slot"
		return
	}
	d.roll()
}

// forget takes back that something is pending.
func (d *decider) forget() {
	r := &d.do.Record
	r.Pending, r.Since, r.Changed = "", time.Time{}, time.Time{}
}

// mark remembers since when the workload has been behind and when that last changed, and reports whether to go on. While
// changes come fast not each is written.
func (d *decider) mark() (goOn bool) {
	r := &d.do.Record
	switch {
	case r.Pending == "" || r.Since.IsZero() || r.Changed.IsZero():
		r.Since = d.Now
		event := Event{Reason: "RolloutPending", Message: d.causes() + " changed"}
		if d.reverted() {
			event = Event{
				Warning: true, Reason: "RolloutReverted",
				Message: "somebody took the digest of the last rollout out of the pod template",
			}
		}
		d.do.Events = append(d.do.Events, event)
	case r.Pending == d.current || !d.Now.Before(d.latest()):
		return true
	default:
		if rest := r.Changed.Add(min(time.Second, d.Settings.Quiet/5)).Sub(d.Now); rest > 0 {
			d.do.Action, d.do.Because, d.do.After = Wait, "QuietPeriod", rest
			return false
		}
	}
	r.Pending, r.Changed = d.current, d.Now
	return true
}

// longestQuiet is how many quiet periods a workload waits at most.
const longestQuiet = 10

func (d *decider) latest() time.Time { return d.do.Record.Since.Add(longestQuiet * d.Settings.Quiet) }

func (d *decider) quiet() bool {
	until := d.do.Record.Changed.Add(d.Settings.Quiet)
	if latest := d.latest(); latest.Before(until) {
		until = latest
	}
	if rest := until.Sub(d.Now); rest > 0 {
		d.do.Action, d.do.Because, d.do.After = Wait, "QuietPeriod", rest
		return false
	}
	return true
}

// reverted reports whether the content is that of the last rollout, and its digest not in the template any more.
func (d *decider) reverted() bool {
	last := d.Record.Last
	return last != nil && last.To == d.current && d.Template != d.current && last.Result != annotation.RolledBack
}

// The first time that a digest is reverted it is put back at once: somebody undid a rollout. Then it is put back later
// and later: somebody else keeps writing the template.
const (
	firstBackoff = time.Minute
	lastBackoff  = 6 * time.Hour
)

func (d *decider) patience() bool {
	last := d.Record.Last
	if !d.reverted() || last.Reverts == 0 {
		return true
	}
	pause := min(firstBackoff<<min(last.Reverts-1, 16), lastBackoff)
	rest := last.Time.Add(pause).Sub(d.Now)
	if rest <= 0 {
		return true
	}
	d.wait("BackOff", "something else keeps taking %s out of the pod template: let it leave that annotation alone",
		annotation.Digest)
	d.do.After = rest
	return false
}

// held reports whether the same change made another workload fail.
func (d *decider) held() bool {
	if d.Settings.OnFailure == annotation.Continue {
		return false
	}
	for _, source := range d.do.Changed {
		if other := d.Failed[source]; other != "" {
			d.wait(RolloutHeld, "others failed with the present content of %s: correct it, or set %s to Continue",
				source, annotation.OnFailure)
			d.reports[len(d.reports)-1].Detail = other + " failed"
			return true
		}
	}
	return false
}

func (d *decider) roll() {
	r := &d.do.Record
	d.do.Since, d.do.Lag = r.Since, d.Now.Sub(r.Since)
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
			Time: d.Now, Sources: d.do.Changed, From: from, To: d.current, Before: d.Template, Reverts: reverts,
			ExceededBefore: d.Status.ExceededAt, Unready: d.inTheWay(),
		},
	}
	d.do.Action, d.do.Template = Roll, d.current
	if d.Template == d.current { // after a rollback: without a digest it is another template, too
		r.Template, r.Last.Result, d.do.Template = annotation.None, annotation.Completed, ""
	}
	started := fmt.Sprintf("rolling to %s because of %s", brief(d.current), d.causes())
	d.do.Events = append(d.do.Events, Event{Reason: "RolloutStarted", Message: started})
	if d.Status.Manual {
		r.Last.Result = annotation.Completed
		d.do.Events = append(d.do.Events, Event{
			Warning: true, Reason: restartNeeded,
			Message: "the update strategy is OnDelete: the pod template is up to date, and a pod is when somebody deletes it",
		})
	}
}

// inTheWay reports whether a pod of an unfinished rollout will be waited for, and not be replaced.
func (d *decider) inTheWay() bool {
	last := d.Record.Last
	unfinished := last != nil && last.Result != annotation.Completed && last.Result != annotation.Superseded
	return unfinished && d.Status.Ordered && !d.Status.Complete
}
