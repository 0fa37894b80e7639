package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	run(t, map[string]testCase{
		"a change": {
			given: policy.Observation{Sources: sources, Record: recordOf(one)}, action: policy.Wait, wait: "QuietPeriod",
			after:  quiet,
			events: []string{"RolloutPending"}, check: recordIs(pending(one, two, 0)), reason: "more changes may follow",
		},
		"a change of what was rolled": {
			given:  policy.Observation{Sources: sources, Record: recordOf(one), Template: total(one)},
			action: policy.Wait, wait: "QuietPeriod", after: quiet, template: total(one),
			events: []string{"RolloutPending"}, check: recordIs(pending(one, two, 0)), reason: "the template stays until then",
		},
		"quiet": {
			given:  policy.Observation{Sources: sources, Record: pending(one, two, 2*time.Second)},
			action: policy.Wait, wait: "QuietPeriod", after: 3 * time.Second, check: recordIs(pending(one, two, 2*time.Second)),
			reason: "three seconds are left",
		},
		"quiet for long enough": {
			given:  policy.Observation{Sources: sources, Record: pending(one, two, quiet)},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				want := rolled(one, two, 0, "")
				recordIs(want)(t, d)
				if d.Lag != quiet || d.Since != now.Add(-quiet) {
					t.Errorf("it waited %v, since %v", d.Lag, d.Since)
				}
			},
			reason: "nothing is pending afterwards",
		},
		"another change": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Record: pending(one, two, 4*time.Second),
			},
			action: policy.Wait, wait: "QuietPeriod", after: quiet,
			check:  recordIs(with(pending(one, three, 0), func(r *annotation.Record) { r.Since = now.Add(-4 * time.Second) })),
			reason: "the quiet period starts again, and Since stays",
		},
		"changes that come fast": {
			given:  policy.Observation{Sources: []digest.Source{three}, Record: pending(one, two, 300*time.Millisecond)},
			action: policy.Wait, wait: "QuietPeriod", after: 700 * time.Millisecond,
			check: recordIs(pending(one, two, 300*time.Millisecond)), reason: "not every change is written",
		},
		"changes that do not end": {
			given: policy.Observation{Sources: []digest.Source{three}, Record: with(pending(one, two, 0), func(r *annotation.Record) {
				r.Since = now.Add(-10 * quiet)
			})},
			action: policy.Roll, template: total(three), events: []string{"RolloutStarted"},
			reason: "after ten quiet periods it rolls",
		},
		"no quiet period": {
			given:  policy.Observation{Sources: sources, Record: recordOf(one)},
			change: func(o *policy.Observation) { o.Settings.Quiet = 0 },
			action: policy.Roll, template: total(two), events: []string{"RolloutPending", "RolloutStarted"}, reason: "at once",
		},
		"merged": {
			given: policy.Observation{Sources: sources, Record: pending(one, two, time.Second), Renewed: true}, action: policy.Merge,
			check: recordIs(recordOf(two)), reason: "a change by another manager replaced the pods already",
		},
		"merged into a template that was rolled before": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Record: rolled(one, two, time.Hour, annotation.Completed), Renewed: true,
				Template: total(two),
			},
			action: policy.Merge, template: total(two),
			check: recordIs(with(rolled(one, two, time.Hour, annotation.Completed), func(r *annotation.Record) {
				r.Observed = total(three)
				r.Sources = digest.Sums([]digest.Source{three})
				r.Template = total(two)
			})),
			reason: "the old digest in the template is no reason to roll",
		},
		"as it was merged": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Template: total(two),
				Record: with(recordOf(three), func(r *annotation.Record) { r.Template = total(two) }),
			},
			action: policy.Nothing, template: total(two), reason: "nothing is written",
		},
		"another template uses more, and what it uses may have changed": {
			given: policy.Observation{
				Sources: []digest.Source{one, source("b", "1")},
				Record:  with(recordOf(one), func(r *annotation.Record) { r.References = "others" }),
			},
			action: policy.Wait, wait: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "the operator was down: a rollout too many is better than old configuration",
		},
		"what is remembered was spoiled": {
			given: policy.Observation{
				Sources: sources, Record: annotation.Record{Observed: total(one)},
			},
			change: func(o *policy.Observation) { o.References = "" },
			action: policy.Wait, wait: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "the digests differ, so something changed",
		},
		"not there": {
			given:  policy.Observation{Sources: []digest.Source{missing}, Record: recordOf(one)},
			action: policy.Wait, wait: "ConfigMissing", events: []string{"ConfigMissing"}, state: "ConfigMissing: ConfigMap/a",
			reason: "without it no pod would start",
		},
		"still not there": {
			given: policy.Observation{Sources: []digest.Source{missing}, Record: with(recordOf(one), func(r *annotation.Record) {
				r.State = "ConfigMissing: ConfigMap/a: without it no pod can start; nothing is rolled until it is there"
			})},
			action: policy.Wait, wait: "ConfigMissing", state: "ConfigMissing", reason: "it was reported already",
		},
		"not there while a rollout is under way": {
			given: policy.Observation{
				Sources: []digest.Source{missing}, Record: rolled(one, two, 9*time.Minute, ""), Template: total(two),
			},
			action: policy.Wait, wait: "ConfigMissing", after: time.Minute, template: total(two),
			events: []string{"ConfigMissing"}, state: "ConfigMissing", reason: "other workloads wait for its end",
		},
		"of tomorrow": {
			given:  policy.Observation{Sources: sources, Record: pending(one, two, -24*time.Hour)},
			action: policy.Wait, wait: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			check: recordIs(pending(one, two, 0)), reason: "the clock was wrong then or is now",
		},
		"a pod of a rollout that failed is in the way": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Status: workload.Status{Ordered: true}, Template: total(two),
				Record: with(rolled(one, two, time.Hour, annotation.Failed), func(r *annotation.Record) {
					r.Pending = total(three)
					r.Since = now.Add(-quiet)
					r.Changed = now.Add(-quiet)
				}),
			},
			action: policy.Roll, template: total(three), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if !d.Record.Last.Unready {
					t.Error("it is not remembered")
				}
			},
			reason: "the unfinished rollout does not concern this content",
		},
		"what Kubernetes gave up was something else": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, quiet), Status: workload.Status{DeadlineExceeded: true, ExceededAt: now},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if d.Record.Last.ExceededBefore != now {
					t.Errorf("it remembers %v", d.Record.Last.ExceededBefore)
				}
			},
			reason: "the old condition may stay for a while",
		},
		"paused": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour),
				Status: workload.Status{Paused: true},
			},
			action: policy.Wait, wait: "Paused", events: []string{"Paused"}, state: "Paused", reason: "the user asked for that",
		},
		"dry run": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Settings: annotation.Settings{DryRun: true},
			},
			action: policy.Wait, wait: "DryRun", events: []string{"DryRun"},
			state: "DryRun: it would roll to " + total(two)[:19],
			check: recordIs(recordOf(one)), reason: "it is reported only",
		},
		"outside of the window": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Settings: annotation.Settings{Window: at("0 22 * * *;2h")},
			},
			action: policy.Wait, wait: "OutsideWindow", after: 10 * time.Hour, events: []string{"OutsideWindow"},
			state:  "OutsideWindow",
			reason: "it opens in ten hours",
		},
		"inside of the window": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Settings: annotation.Settings{Window: at("0 11 * * *;2h")},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"}, reason: "it is open for another hour",
		},
		"others first": {
			given:  policy.Observation{Sources: sources, Record: pending(one, two, time.Hour)},
			change: func(o *policy.Observation) { o.Slot = false },
			action: policy.Wait, wait: "Slot", check: recordIs(pending(one, two, time.Hour)),
			reason: "it is enqueued when there is a slot",
		},
		"OnDelete": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour),
				Status: workload.Status{Manual: true},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted", "RestartNeeded"},
			check: recordIs(rolled(one, two, 0, annotation.Completed)), reason: "no workload waits for manual deletions",
		},
		"annotations that cannot be read": {
			given: policy.Observation{
				Sources: []digest.Source{one}, Record: recordOf(one),
				Invalid: []annotation.Invalid{
					{Name: annotation.Window, Err: errors.New("it is wrong")}, {Name: annotation.Priority, Err: errors.New("no number")},
				},
			},
			action: policy.Nothing, events: []string{"InvalidAnnotation"},
			state: "InvalidAnnotation: rollout.homeostat.dev/window: it is wrong", reason: "it is reported once",
		},
		"a change, and an annotation that cannot be read": {
			given: policy.Observation{
				Sources: []digest.Source{two}, Record: pending(one, two, time.Hour),
				Invalid: []annotation.Invalid{wrong(annotation.DryRun)},
			},
			action: policy.Wait, wait: "InvalidAnnotation", events: []string{"InvalidAnnotation"},
			check: recordIs(pending(one, two, time.Hour)), state: "InvalidAnnotation: rollout.homeostat.dev/dry-run",
			reason: "it may ask for a dry run",
		},
		"a change, and a priority that cannot be read": {
			given: policy.Observation{
				Sources: []digest.Source{two}, Record: pending(one, two, time.Hour),
				Invalid: []annotation.Invalid{{Name: annotation.Priority, Effect: annotation.Defaults, Err: errors.New("it is wrong")}},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted", "InvalidAnnotation"},
			state: "InvalidAnnotation: rollout.homeostat.dev/priority", reason: "the default does no harm",
		},
		"a list of sources that cannot be read": {
			given: policy.Observation{
				Sources: []digest.Source{one}, Record: recordOf(one, source("b", "1")), Invalid: []annotation.Invalid{
					{Name: annotation.ConfigMaps, Effect: annotation.HoldsSources, Err: errors.New("it is wrong")},
				},
			},
			action: policy.Wait, wait: "InvalidAnnotation", events: []string{"InvalidAnnotation"},
			check: recordIs(recordOf(one, source("b", "1"))), state: "InvalidAnnotation: rollout.homeostat.dev/configmaps",
			reason: "a change of b would be lost",
		},
		"Secrets that the operator does not read": {
			given:  policy.Observation{Sources: []digest.Source{one}, Record: recordOf(one), SecretsOff: true},
			events: []string{"SecretsDisabled"}, action: policy.Nothing, state: "SecretsDisabled: rollout.homeostat.dev/secrets",
			reason: "it is reported",
		},
	})
}

func wrong(name string) annotation.Invalid {
	return annotation.Invalid{Name: name, Err: errors.New("it is wrong")}
}

func at(text string) *window.Window {
	w, err := window.Parse(text)
	if err != nil {
		panic(err)
	}
	return w
}

// Another manager changes the digest in the template.
func TestReverts(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	done := rolled(one, two, 30*time.Second, annotation.Completed)
	run(t, map[string]testCase{
		"kubectl rollout undo of a Deployment": {
			given:  policy.Observation{Sources: sources, Record: pending(one, two, time.Hour)},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"},
			reason: "the old annotations are restored too: the rollout is pending again",
		},
		"kubectl rollout undo of another kind": {
			given:  policy.Observation{Sources: sources, Record: done, Template: total(one)},
			action: policy.Wait, wait: "QuietPeriod", after: quiet, template: total(one), events: []string{"RolloutReverted"},
			reason: "the pods may have another content than the present one",
		},
		"the first time": {
			given: policy.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 0),
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if d.Record.Last.Reverts != 1 {
					t.Errorf("%d reverts are counted", d.Record.Last.Reverts)
				}
			},
			reason: "a user undid the rollout",
		},
		"the second time": {
			given: policy.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 1),
			},
			action: policy.Wait, wait: "BackOff", after: 30 * time.Second, events: []string{"BackOff"}, state: "BackOff",
			reason: "another manager keeps writing the template: a minute after the last rollout",
		},
		"the fourth time": {
			given: policy.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 3),
			},
			action: policy.Wait, wait: "BackOff", after: 4*time.Minute - 30*time.Second, events: []string{"BackOff"},
			state:  "BackOff",
			reason: "the backoff grows",
		},
		"after a hundred times": {
			given: policy.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 100),
			},
			action: policy.Wait, wait: "BackOff", after: 6*time.Hour - 30*time.Second, events: []string{"BackOff"},
			state:  "BackOff",
			reason: "the backoff is at most six hours",
		},
		"another content after that": {
			given: policy.Observation{Sources: []digest.Source{three}, Record: with(
				reverted(rolled(one, two, 30*time.Second, annotation.Completed), 3),
				func(r *annotation.Record) { r.Pending = total(three) },
			)},
			action: policy.Roll, template: total(three), events: []string{"RolloutStarted"},
			reason: "a new content has no backoff",
		},
		"undone to the present content": {
			given: policy.Observation{Sources: []digest.Source{one}, Record: done, Template: total(one)}, action: policy.Merge,
			template: total(one),
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if d.Record.Observed != total(one) {
					t.Errorf("it is remembered as brought to %s", d.Record.Observed)
				}
			},
			reason: "the pods have the template with that digest",
		},
	})
}
