package decision_test

import (
	"errors"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/decision"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	run(t, map[string]testCase{
		"a change": {
			see: decision.Observation{Sources: sources, Record: brought(one)}, action: decision.Wait, because: "QuietPeriod",
			after:  quiet,
			events: []string{"RolloutPending"}, check: remembers(behind(one, two, 0)), reason: "more may follow",
		},
		"a change of what was rolled": {
			see:    decision.Observation{Sources: sources, Record: brought(one), Template: total(one)},
			action: decision.Wait, because: "QuietPeriod", after: quiet, template: total(one),
			events: []string{"RolloutPending"}, check: remembers(behind(one, two, 0)), reason: "the template stays until then",
		},
		"quiet": {
			see:    decision.Observation{Sources: sources, Record: behind(one, two, 2*time.Second)},
			action: decision.Wait, because: "QuietPeriod", after: 3 * time.Second, check: remembers(behind(one, two, 2*time.Second)),
			reason: "three seconds are left",
		},
		"quiet for long enough": {
			see:    decision.Observation{Sources: sources, Record: behind(one, two, quiet)},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				want := rolled(one, two, 0, "")
				remembers(want)(t, d)
				if d.Lag != quiet || d.Since != now.Add(-quiet) {
					t.Errorf("it waited %v, since %v", d.Lag, d.Since)
				}
			},
			reason: "nothing is pending afterwards",
		},
		"another change": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Record: behind(one, two, 4*time.Second),
			},
			action: decision.Wait, because: "QuietPeriod", after: quiet,
			check:  remembers(with(behind(one, three, 0), func(r *annotation.Record) { r.Since = now.Add(-4 * time.Second) })),
			reason: "the quiet period begins anew, and since when it is behind stays",
		},
		"changes that come fast": {
			see:    decision.Observation{Sources: []digest.Source{three}, Record: behind(one, two, 300*time.Millisecond)},
			action: decision.Wait, because: "QuietPeriod", after: 700 * time.Millisecond,
			check: remembers(behind(one, two, 300*time.Millisecond)), reason: "not each is written",
		},
		"changes that do not end": {
			see: decision.Observation{Sources: []digest.Source{three}, Record: with(behind(one, two, 0), func(r *annotation.Record) {
				r.Since = now.Add(-10 * quiet)
			})},
			action: decision.Roll, template: total(three), events: []string{"RolloutStarted"},
			reason: "after ten quiet periods it rolls",
		},
		"no quiet period": {
			see:    decision.Observation{Sources: sources, Record: brought(one)},
			change: func(o *decision.Observation) { o.Settings.Quiet = 0 },
			action: decision.Roll, template: total(two), events: []string{"RolloutPending", "RolloutStarted"}, reason: "at once",
		},
		"merged": {
			see: decision.Observation{Sources: sources, Record: behind(one, two, time.Second), Renewed: true}, action: decision.Merge,
			check: remembers(brought(two)), reason: "somebody else's change of the template replaced the pods already",
		},
		"merged into a template that was rolled before": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Record: rolled(one, two, time.Hour, annotation.Completed), Renewed: true,
				Template: total(two),
			},
			action: decision.Merge, template: total(two),
			check: remembers(with(rolled(one, two, time.Hour, annotation.Completed), func(r *annotation.Record) {
				r.Observed, r.Sources, r.Template = total(three), digest.Sums([]digest.Source{three}), total(two)
			})),
			reason: "the old digest in the template is no reason to roll",
		},
		"as it was merged": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Template: total(two),
				Record: with(brought(three), func(r *annotation.Record) { r.Template = total(two) }),
			},
			action: decision.Nothing, template: total(two), reason: "nothing is written",
		},
		"another template uses more, and what it uses may have changed": {
			see: decision.Observation{
				Sources: []digest.Source{one, of("b", "1")},
				Record:  with(brought(one), func(r *annotation.Record) { r.References = "others" }),
			},
			action: decision.Wait, because: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "the operator was down: a rollout too many is better than old configuration",
		},
		"what is remembered was spoiled": {
			see: decision.Observation{
				Sources: sources, Record: annotation.Record{Observed: total(one)},
			},
			change: func(o *decision.Observation) { o.References = "" },
			action: decision.Wait, because: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "the digests differ, so something changed",
		},
		"not there": {
			see:    decision.Observation{Sources: []digest.Source{gone}, Record: brought(one)},
			action: decision.Wait, because: "ConfigMissing", events: []string{"ConfigMissing"}, state: "ConfigMissing: ConfigMap/a",
			reason: "without it no pod would start",
		},
		"still not there": {
			see: decision.Observation{Sources: []digest.Source{gone}, Record: with(brought(one), func(r *annotation.Record) {
				r.State = "ConfigMissing: ConfigMap/a: without it no pod can start; nothing is rolled until it is there"
			})},
			action: decision.Wait, because: "ConfigMissing", state: "ConfigMissing", reason: "it was told already",
		},
		"not there while a rollout is under way": {
			see: decision.Observation{
				Sources: []digest.Source{gone}, Record: rolled(one, two, 9*time.Minute, ""), Template: total(two),
			},
			action: decision.Wait, because: "ConfigMissing", after: time.Minute, template: total(two),
			events: []string{"ConfigMissing"}, state: "ConfigMissing", reason: "others wait for its end",
		},
		"of tomorrow": {
			see:    decision.Observation{Sources: sources, Record: behind(one, two, -24*time.Hour)},
			action: decision.Wait, because: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			check: remembers(behind(one, two, 0)), reason: "the clock was wrong then or is now",
		},
		"a pod of a rollout that failed is in the way": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Status: workload.Status{Ordered: true}, Template: total(two),
				Record: with(rolled(one, two, time.Hour, annotation.Failed), func(r *annotation.Record) {
					r.Pending, r.Since, r.Changed = total(three), now.Add(-quiet), now.Add(-quiet)
				}),
			},
			action: decision.Roll, template: total(three), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if !d.Record.Last.Unready {
					t.Error("it is not remembered")
				}
			},
			reason: "that the rollout comes to no end says nothing of this content",
		},
		"what Kubernetes gave up was something else": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, quiet), Status: workload.Status{Exceeded: true, ExceededAt: now},
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if d.Record.Last.ExceededBefore != now {
					t.Errorf("it remembers %v", d.Record.Last.ExceededBefore)
				}
			},
			reason: "it may go on saying so for a while",
		},
		"paused": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour),
				Status: workload.Status{Paused: true},
			},
			action: decision.Wait, because: "Paused", events: []string{"Paused"}, state: "Paused", reason: "the user asked for that",
		},
		"dry run": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Settings: annotation.Settings{DryRun: true},
			},
			action: decision.Wait, because: "DryRun", events: []string{"DryRun"},
			state: "DryRun: it would roll to " + total(two)[:19],
			check: remembers(brought(one)), reason: "it is told and not done",
		},
		"outside of the window": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Settings: annotation.Settings{Window: at("0 22 * * *;2h")},
			},
			action: decision.Wait, because: "OutsideWindow", after: 10 * time.Hour, events: []string{"OutsideWindow"},
			state:  "OutsideWindow",
			reason: "it opens in ten hours",
		},
		"inside of the window": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Settings: annotation.Settings{Window: at("0 11 * * *;2h")},
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"}, reason: "it is open for another hour",
		},
		"others first": {
			see:    decision.Observation{Sources: sources, Record: behind(one, two, time.Hour)},
			change: func(o *decision.Observation) { o.Slot = false },
			action: decision.Wait, because: "Slot", check: remembers(behind(one, two, time.Hour)),
			reason: "it is woken when it is its turn",
		},
		"OnDelete": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour),
				Status: workload.Status{Manual: true},
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted", "RestartNeeded"},
			check: remembers(rolled(one, two, 0, annotation.Completed)), reason: "nobody waits for pods that nobody restarts",
		},
		"annotations that cannot be read": {
			see: decision.Observation{
				Sources: []digest.Source{one}, Record: brought(one),
				Invalid: []annotation.Invalid{
					{Name: annotation.Window, Err: errors.New("it is wrong")}, {Name: annotation.Priority, Err: errors.New("no number")},
				},
			},
			action: decision.Nothing, events: []string{"InvalidAnnotation"},
			state: "InvalidAnnotation: rollout.homeostat.dev/window: it is wrong", reason: "it is told once",
		},
	})
}

func at(text string) *window.Window {
	w, err := window.Parse(text)
	if err != nil {
		panic(err)
	}
	return w
}

// Somebody else changes the digest in the template.
func TestReverts(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	done := rolled(one, two, 30*time.Second, annotation.Completed)
	run(t, map[string]testCase{
		"kubectl rollout undo of a Deployment": {
			see:    decision.Observation{Sources: sources, Record: behind(one, two, time.Hour)},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"},
			reason: "the old annotations are back, too: it is as if it had not been rolled yet",
		},
		"kubectl rollout undo of another kind": {
			see:    decision.Observation{Sources: sources, Record: done, Template: total(one)},
			action: decision.Wait, because: "QuietPeriod", after: quiet, template: total(one), events: []string{"RolloutReverted"},
			reason: "the pods may have been started with the present content, and may not",
		},
		"the first time": {
			see: decision.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 0),
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"},
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if d.Record.Last.Reverts != 1 {
					t.Errorf("%d reverts are counted", d.Record.Last.Reverts)
				}
			},
			reason: "somebody undid a rollout",
		},
		"the second time": {
			see: decision.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 1),
			},
			action: decision.Wait, because: "BackOff", after: 30 * time.Second, events: []string{"BackOff"}, state: "BackOff",
			reason: "somebody keeps writing the template: a minute after the last rollout",
		},
		"the fourth time": {
			see: decision.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 3),
			},
			action: decision.Wait, because: "BackOff", after: 4*time.Minute - 30*time.Second, events: []string{"BackOff"},
			state:  "BackOff",
			reason: "later and later",
		},
		"after a hundred times": {
			see: decision.Observation{
				Sources: sources,
				Record:  reverted(rolled(one, two, 30*time.Second, annotation.Completed), 100),
			},
			action: decision.Wait, because: "BackOff", after: 6*time.Hour - 30*time.Second, events: []string{"BackOff"},
			state:  "BackOff",
			reason: "every six hours at last",
		},
		"another content after that": {
			see: decision.Observation{Sources: []digest.Source{three}, Record: with(
				reverted(rolled(one, two, 30*time.Second, annotation.Completed), 3),
				func(r *annotation.Record) { r.Pending = total(three) },
			)},
			action: decision.Roll, template: total(three), events: []string{"RolloutStarted"},
			reason: "what is new is not waited for",
		},
		"undone to the present content": {
			see: decision.Observation{Sources: []digest.Source{one}, Record: done, Template: total(one)}, action: decision.Merge,
			template: total(one),
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if d.Record.Observed != total(one) {
					t.Errorf("it is remembered as brought to %s", d.Record.Observed)
				}
			},
			reason: "the pods are of a template that says so",
		},
	})
}
