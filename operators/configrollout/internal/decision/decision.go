// Package decision decides what to do about one workload. It is a function of what the cluster says: it reads no clock,
// makes no request and remembers nothing.
package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// Action is what is done about the workload.
type Action string

// The actions.
const (
	// Nothing: it is as it should be.
	Nothing Action = "nothing"
	// Release: it takes no part any more, and what was remembered goes.
	Release Action = "release"
	// Baseline: what it uses is remembered, and nothing rolled.
	Baseline Action = "baseline"
	// Merge: its pods were or are being replaced anyway, and start with the present configuration.
	Merge Action = "merge"
	// Wait: it is behind, and something else comes first.
	Wait Action = "wait"
	// Roll: its pods are replaced.
	Roll Action = "roll"
	// Rollback: a rollout failed and is taken back.
	Rollback Action = "rollback"
	// Conclude: how a rollout ended is remembered.
	Conclude Action = "conclude"
)

// Observation is all that a decision depends on.
type Observation struct {
	// Enabled means that the workload takes part.
	Enabled  bool
	Settings annotation.Settings
	Invalid  []annotation.Invalid
	// Record is what is remembered of it.
	Record annotation.Record
	// Template is the digest in the pod template, and Status how the template's rollout is doing.
	Template string
	Status   workload.Status
	// Sources are what it uses now, and References identifies what its template refers to, whether or not it counts.
	Sources    []digest.Source
	References string
	// Renewed means that the template was changed, by somebody else, after everything that it uses, and that all its pods
	// are younger than that.
	Renewed bool
	// Failed names, by source, workloads whose rollout failed with the present content of that source.
	Failed map[string]string
	// Slot means that a rollout may start, as far as others are concerned.
	Slot bool
	// Deadline is how long a rollout may make no progress where Kubernetes does not say.
	Deadline time.Duration
	Now      time.Time
}

// Decision is what to do.
type Decision struct {
	Action Action
	// Record is what is to be remembered, and Template the digest that the pod template is to have; empty for none.
	Record   annotation.Record
	Template string
	// After is when to look again although nothing happens; zero means never.
	After time.Duration
	// Because is why a workload waits, in one word; empty if it does not.
	Because string
	// Events are to be recorded if what was decided could be written.
	Events []Event
	// Ready means that only other workloads keep this one from rolling.
	Ready bool
	// Changed are the sources that make it roll.
	Changed []string
	// Result is how the last rollout ended, if that is news.
	Result annotation.Result
	// Since is when a workload that is rolled fell behind, and Lag how long ago that was.
	Since time.Time
	Lag   time.Duration
}

// Reasons that mean something to the program, too.
const (
	InvalidAnnotation = "InvalidAnnotation"
	RolloutHeld       = "RolloutHeld"
)

// Event is told to the user.
type Event struct {
	Warning         bool
	Reason, Message string
	// Detail is not part of the state that is remembered, because it may become another without anything new to tell.
	Detail string
}

// Decide decides.
func Decide(o Observation) Decision {
	d := &decider{Observation: o, current: digest.Total(o.Sources)}
	d.do = Decision{Action: Nothing, Record: o.Record, Template: o.Template}
	d.decide()
	d.report()
	return d.do
}

type decider struct {
	Observation

	do      Decision
	current string
	reports []Event // what State is to say
}

func (d *decider) decide() {
	if !d.Enabled {
		d.do.Action, d.do.Record = Release, annotation.Record{}
		d.Invalid = nil
		return
	}
	for _, i := range d.Invalid {
		d.say(InvalidAnnotation, "%s: %v; the default holds", i.Name, i.Err)
	}
	if missing := d.missing(); len(missing) > 0 {
		d.wait("ConfigMissing", "%s: without it no pod can start; nothing is rolled until it is there", list(missing))
		return
	}
	d.do.Changed = d.changed()
	switch {
	case d.adopts():
		d.settle(Baseline)
	case d.inSync():
		d.settle(Nothing)
		d.conclude()
	case d.Template == d.current && !d.isRolledBack(), d.accepted() && (d.Renewed || d.unchanged()):
		d.settle(Merge)
	default:
		d.behind()
	}
}

func (d *decider) missing() []string {
	var missing []string
	for _, s := range d.Sources {
		if s.Missing != "" {
			missing = append(missing, s.Missing)
		}
	}
	return missing
}

// changed names the sources whose content is not, or may not be, what the pods started with.
func (d *decider) changed() []string {
	var changed []string
	// What only the settings add has no other content than before. What the template adds may have.
	added := d.References != d.Record.References
	for _, s := range d.Sources {
		if was, known := d.Record.Sources[s.ID]; known && was != s.Sum || !known && added {
			changed = append(changed, s.Name)
		}
	}
	return changed
}

// unchanged reports whether the digest is another one only because other keys count than before.
func (d *decider) unchanged() bool {
	spoiled := d.Record.Sources == nil && d.Record.Observed != digest.Total(nil)
	return len(d.do.Changed) == 0 && !spoiled
}

// adopts reports whether nothing is known of the workload.
func (d *decider) adopts() bool {
	return d.Record.Observed == "" && (d.Template == "" || d.Template == d.current)
}

// accepted reports whether the template's digest is the one that was left there.
func (d *decider) accepted() bool {
	r := d.Record
	switch {
	case r.Template == annotation.None:
		return d.Template == ""
	case r.Template != "":
		return d.Template == r.Template
	case d.Template == "":
		return r.Last == nil || r.Last.To != r.Observed
	default:
		return d.Template == r.Observed
	}
}

func (d *decider) inSync() bool { return d.Record.Observed == d.current && d.accepted() }

// isRolledBack reports whether there may be pods that started with what made the last rollout fail, although the template's
// digest is that of something else.
func (d *decider) isRolledBack() bool {
	last := d.Record.Last
	return last != nil && last.Result == annotation.RolledBack && last.To == d.Record.Observed
}

// settle remembers that the workload is up to date with its template as it is.
func (d *decider) settle(action Action) {
	r := &d.do.Record
	changed := r.Pending != ""
	if action != Nothing {
		r.Template = ""
		if d.Template != d.current && (d.Template != "" || r.Last != nil) {
			r.Template = orNone(d.Template)
		}
	}
	if action == Merge && r.Last != nil && r.Last.Result == "" && r.Last.To != d.current {
		last := *r.Last
		last.Result = annotation.Superseded
		r.Last = &last
	}
	r.Observed, r.Sources, r.References = d.current, digest.Sums(d.Sources), d.References
	r.Pending, r.Since, r.Changed = "", time.Time{}, time.Time{}
	d.do.Action = action
	if action == Nothing && changed {
		d.do.Action = Merge // what was pending has become what it was before
	}
}

// behind is for a workload that is to be rolled. What becomes of its last rollout matters to others until it is.
func (d *decider) behind() {
	last, deadline := d.do.Record.Last, time.Duration(0)
	if last != nil && last.Result == "" && d.Template == last.To {
		deadline = d.end()
		d.do.Action = Nothing
	}
	d.catchUp()
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
			Warning: true, Reason: "RestartNeeded",
			Message: "the update strategy is OnDelete: the pod template is up to date, and a pod is when somebody deletes it",
		})
	}
}

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

func (d *decider) rolledBack() {
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
	return 0
}

// wait says why the workload is not rolled.
func (d *decider) wait(reason, format string, args ...any) {
	d.do.Action, d.do.Because = Wait, reason
	d.say(reason, format, args...)
}

// say makes a sentence a part of State, and an event if it was not there before.
func (d *decider) say(reason, format string, args ...any) {
	d.reports = append(d.reports, Event{Warning: reason != "DryRun", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// report brings State up to date.
func (d *decider) report() {
	before := d.Record.State
	var lines []string
	for _, r := range d.reports {
		line := r.Reason + ": " + r.Message
		lines = append(lines, line)
		if !strings.Contains(before, line) {
			d.do.Events = append(d.do.Events, r)
		}
	}
	d.do.Record.State = strings.Join(lines, "; ")
}

func (d *decider) causes() string { return d.cause(d.do.Changed) }

func (d *decider) cause(sources []string) string {
	if len(sources) == 0 {
		return "a digest in the pod template that is not that of the present configuration"
	}
	return list(sources)
}

// list names a few of many.
func list(names []string) string {
	const some = 5
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
	}
	return strings.Join(names, ", ")
}

func orNone(digest string) string {
	if digest == "" {
		return annotation.None
	}
	return digest
}

// brief is enough of a digest for a person.
func brief(digest string) string {
	const enough = len("sha256:") + 12
	return digest[:min(len(digest), enough)]
}
