// Package decision decides what to do about one workload. It is a function of what the cluster says: it reads no clock,
// makes no request and remembers nothing.
package decision

import (
	"slices"
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
	// Invalid are the annotations that cannot be read, without the prefix, if that is news.
	Invalid []string
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
	restartNeeded     = "RestartNeeded"
)

// Event is told to the user.
type Event struct {
	Warning         bool
	Reason, Message string
	// Detail is not part of the state that is remembered, because it may become another without anything new to tell.
	Detail string

	annotation string // that it is about; empty if it is about none
}

// Decide decides.
func Decide(o Observation) Decision {
	d := &decider{Observation: o, current: digest.Total(o.Sources)}
	d.Record = o.Record.NotAfter(o.Now)
	d.do = Decision{Action: Nothing, Record: d.Record, Template: o.Template}
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
		d.Invalid = slices.DeleteFunc(d.Invalid, func(i annotation.Invalid) bool { return !i.Outside })
	}
	for _, i := range d.Invalid {
		d.sayInvalid(i)
	}
	if !d.Enabled {
		return
	}
	if missing := d.missing(); len(missing) > 0 {
		d.meanwhile(func() {
			d.wait("ConfigMissing", "%s: without it no pod can start; nothing is rolled until it is there", list(missing))
		})
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
		d.meanwhile(d.catchUp)
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
