// Package policy decides what to do about one workload. It is a pure function of the observed state: it reads no clock,
// sends no request and keeps no state.
package policy

import (
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/status"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// Action is the action for a workload.
type Action string

// The actions.
const (
	// Nothing means that the workload is up to date.
	Nothing Action = "nothing"
	// Release means that the workload is no longer enabled; the record is removed.
	Release Action = "release"
	// Baseline means that the present configuration is recorded without a rollout.
	Baseline Action = "baseline"
	// Merge means that a change by another manager replaces the pods, with the present configuration.
	Merge Action = "merge"
	// Wait means that a rollout is pending.
	Wait Action = "wait"
	// Roll means that the pods are replaced.
	Roll Action = "roll"
	// Rollback means that a failed rollout is undone.
	Rollback Action = "rollback"
	// Conclude means that the result of a rollout is recorded.
	Conclude Action = "conclude"
)

// Observation is the input of a decision.
type Observation struct {
	// Enabled means that the workload is enabled.
	Enabled  bool
	Settings annotation.Settings
	Invalid  []annotation.Invalid
	// Record is the stored record.
	Record annotation.Record
	// Template is the digest in the pod template, and Status the status of the template's rollout.
	Template string
	Status   workload.Status
	// Sources are the present sources. References identifies all references of the template, including ignored ones.
	Sources    []digest.Source
	References string
	// Renewed means that another manager changed the template after the last change of a source, and that all pods are
	// younger.
	Renewed bool
	// Failed names, by source, workloads that failed with the present content of that source.
	Failed map[string]string
	// Excess describes too many references; otherwise it is empty. The sources are not known then.
	Excess string
	// SecretsOff means that the workload names Secrets, and that the operator does not read any.
	SecretsOff bool
	// Slot means that the limiter permits a rollout.
	Slot bool
	// Deadline is the time without progress after which a rollout has failed, for kinds without a deadline in Kubernetes.
	Deadline time.Duration
	// MaxDeadline is the upper limit of a deadline in Kubernetes; zero means none.
	MaxDeadline time.Duration
	Now         time.Time
}

// Decision is the result.
type Decision struct {
	Action Action
	// Record is the record to store, and Template the digest for the pod template; empty for none.
	Record   annotation.Record
	Template string
	// RequeueAfter is the time until the next reconcile without an event; zero means none.
	RequeueAfter time.Duration
	// WaitReason is the reason for Wait in one word; otherwise empty.
	WaitReason string
	// Events are recorded after the decision has been written.
	Events []status.Event
	// Ready means that only the limiter delays the rollout.
	Ready bool
	// Changed are the sources that cause the rollout.
	Changed []string
	// Invalid are newly found invalid annotations, without the prefix.
	Invalid []string
	// Result is the result of the last rollout, if it is new.
	Result annotation.Result
	// Since is the time of the first pending change of a workload that is rolled, and Lag is its age.
	Since time.Time
	Lag   time.Duration
}

// The reasons that the program uses as well.
const (
	RolloutHeld   = "RolloutHeld"
	restartNeeded = "RestartNeeded"
)

// Decide returns the decision for an observation.
func Decide(o Observation) Decision {
	d := &decider{Observation: o, current: digest.Total(o.Sources)}
	d.Record = o.Record.ClampTimes(o.Now)
	d.decision = Decision{Action: Nothing, Record: d.Record, Template: o.Template}
	d.decide()
	d.writeState()
	return d.decision
}

type decider struct {
	Observation

	decision Decision
	current  string
	messages []status.Event // the messages of State
}

func (d *decider) decide() {
	if !d.Enabled {
		d.decision.Action = Release
		d.decision.Record = annotation.Record{}
		d.Invalid = slices.DeleteFunc(d.Invalid, func(i annotation.Invalid) bool { return !i.AffectsEnabled })
	}
	for _, i := range d.Invalid {
		d.messages = append(d.messages, status.Invalid(i))
	}
	if !d.Enabled {
		return
	}
	if d.Excess != "" {
		d.decidePending(func() {
			d.wait("TooManyReferences", "%s; nothing is rolled until there are fewer", d.Excess)
		})
		return
	}
	if d.SecretsOff {
		d.addMessage("SecretsDisabled", "%s names Secrets, and the operator runs without --secrets: their changes cause no "+
			"rollout; remove the annotation, or install the operator with the component config/secrets", annotation.Secrets)
	}
	if missing := d.missing(); len(missing) > 0 {
		d.decidePending(func() {
			d.wait("ConfigMissing", "%s: without it no pod can start; nothing is rolled until it is there", status.Names(missing))
		})
		return
	}
	d.decision.Changed = d.changed()
	switch {
	case d.isNew():
		d.markConverged(Baseline)
	case d.inSync():
		d.markConverged(Nothing)
		d.conclude()
	case d.holds(annotation.HoldsSources):
		d.decidePending(d.waitForCorrection)
	case d.Template == d.current && !d.isRolledBack(), d.templateAsRecorded() && (d.Renewed || d.unchanged()):
		d.markConverged(Merge)
	default:
		d.decidePending(d.decideRollout)
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

// changed names the sources with a content that differs, or may differ, from that of the running pods.
func (d *decider) changed() []string {
	var changed []string
	// A source added by settings had the same content before. A source added by the template may have another one.
	added := d.References != d.Record.References
	otherKey := digest.KeyID(d.Record.Observed) != digest.KeyID(d.current)
	for _, s := range d.Sources {
		if _, known := d.Record.Sources[s.ID]; known && s.KeyID != "" && otherKey {
			// The sums are not comparable. A new key must not roll every workload, and must not lose a pending rollout.
			if d.Record.Pending != "" {
				changed = append(changed, s.Name)
			}
			continue
		}
		if was, known := d.Record.Sources[s.ID]; known && was != s.Sum || !known && added {
			changed = append(changed, s.Name)
		}
	}
	return changed
}

// unchanged reports whether the digest differs only because other keys are used.
func (d *decider) unchanged() bool {
	recordLost := d.Record.Sources == nil && d.Record.Observed != digest.Total(nil)
	return len(d.decision.Changed) == 0 && !recordLost
}

// isNew reports whether the workload has no record.
func (d *decider) isNew() bool {
	return d.Record.Observed == "" && (d.Template == "" || d.Template == d.current)
}

// templateAsRecorded reports whether the digest in the template is the recorded one.
func (d *decider) templateAsRecorded() bool {
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

func (d *decider) inSync() bool { return d.Record.Observed == d.current && d.templateAsRecorded() }

// isRolledBack reports whether pods may still have the configuration that made the last rollout fail, although the
// template has another digest.
func (d *decider) isRolledBack() bool {
	last := d.Record.Last
	return last != nil && last.Result == annotation.RolledBack && last.To == d.Record.Observed
}

// markConverged records that the workload is up to date with its present template.
func (d *decider) markConverged(action Action) {
	r := &d.decision.Record
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
	r.Observed = d.current
	r.Sources = digest.Sums(d.Sources)
	r.References = d.References
	r.Pending = ""
	r.Since = time.Time{}
	r.Changed = time.Time{}
	d.decision.Action = action
	if action == Nothing && changed {
		d.decision.Action = Merge // the pending change was undone
	}
}
