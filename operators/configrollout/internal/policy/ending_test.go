package policy_test

import (
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

func TestRolloutResults(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	deployment := workload.Status{Observed: true, Deadline: 10 * time.Minute}
	exceeded := workload.Status{Observed: true, Deadline: 10 * time.Minute, DeadlineExceeded: true}
	set := workload.Status{Observed: true}
	running := func(ago time.Duration) annotation.Record { return rolled(one, two, ago, "") }
	run(t, map[string]testCase{
		"under way": {
			given:  policy.Observation{Sources: sources, Record: running(4 * time.Minute), Template: total(two), Status: deployment},
			action: policy.Nothing, after: 7 * time.Minute, template: total(two),
			reason: "Kubernetes has a deadline, and reports it within a minute",
		},
		"under way, with progress": {
			given: policy.Observation{
				Sources: sources, Record: running(time.Hour), Template: total(two),
				Status: workload.Status{Observed: true, Deadline: 10 * time.Minute, Progressed: now.Add(-time.Minute)},
			},
			action: policy.Nothing, after: 10 * time.Minute, template: total(two), reason: "each progress extends the deadline",
		},
		"a deadline that nothing reports": {
			given:  policy.Observation{Sources: sources, Record: running(11 * time.Minute), Template: total(two), Status: deployment},
			action: policy.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: recordIs(rolled(one, two, 11*time.Minute, annotation.Failed)), reason: "other workloads wait for its slot",
		},
		"a deadline that is longer than the maximal one": {
			given: policy.Observation{
				Sources: sources, Record: running(32 * time.Minute), Template: total(two),
				Status: workload.Status{Observed: true, Deadline: 2147483646 * time.Second}, MaxDeadline: 30 * time.Minute,
			},
			action: policy.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: recordIs(rolled(one, two, 32*time.Minute, annotation.Failed)), reason: "it would take its slot for ever",
		},
		"a template that Kubernetes has not observed": {
			given: policy.Observation{
				Sources: sources, Record: running(time.Hour), Template: total(two), Status: workload.Status{Deadline: time.Minute},
			},
			action: policy.Nothing, template: total(two), reason: "the content is not to blame",
		},
		"complete": {
			given: policy.Observation{
				Sources: sources, Record: running(time.Minute), Template: total(two),
				Status: workload.Status{Complete: true},
			},
			action: policy.Conclude, template: total(two), events: []string{"RolloutCompleted"},
			check: recordIs(rolled(one, two, time.Minute, annotation.Completed)), reason: "the result is recorded",
		},
		"failed": {
			given:  policy.Observation{Sources: sources, Record: running(time.Hour), Template: total(two), Status: exceeded},
			action: policy.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: recordIs(rolled(one, two, time.Hour, annotation.Failed)), reason: "it holds other workloads",
		},
		"failed, and complete after all": {
			given: policy.Observation{
				Sources: sources, Record: rolled(one, two, time.Hour, annotation.Failed), Template: total(two),
				Status: workload.Status{Complete: true},
			},
			action: policy.Conclude, template: total(two), events: []string{"RolloutCompleted"},
			check: recordIs(rolled(one, two, time.Hour, annotation.Completed)), reason: "other workloads are no longer held",
		},
		"a StatefulSet that could not begin": {
			given: policy.Observation{
				Sources: sources, Template: total(two), Status: workload.Status{Observed: true, Ordered: true},
				Record: with(running(10*time.Minute), func(r *annotation.Record) { r.Last.Unready = true }),
			},
			action: policy.Conclude, template: total(two), events: []string{"RestartNeeded"}, state: "RestartNeeded",
			check: recordIs(with(rolled(one, two, 10*time.Minute, annotation.Stuck), func(r *annotation.Record) {
				r.Last.Unready = true
			})),
			reason: "an unready pod of an earlier template blocks it: the content has not failed",
		},
		"a StatefulSet that can begin at last": {
			given: policy.Observation{
				Sources: sources, Template: total(two), Status: workload.Status{Observed: true, Ordered: true, Updated: 1},
				Record: with(rolled(one, two, time.Hour, annotation.Stuck), func(r *annotation.Record) { r.Last.Unready = true }),
			},
			action: policy.Conclude, template: total(two), events: []string{"RestartNeeded"}, state: "RestartNeeded",
			check: recordIs(with(rolled(one, two, time.Hour, ""), func(r *annotation.Record) {
				r.Last.Unready = true
				r.Last.Updated = 1
				r.Last.Progressed = now
			})),
			reason: "the pod was deleted: the rollout continues with a new deadline",
		},
		"a StatefulSet within its time": {
			given:  policy.Observation{Sources: sources, Record: running(4 * time.Minute), Template: total(two), Status: set},
			action: policy.Nothing, after: 6 * time.Minute, template: total(two), reason: "six minutes are left",
		},
		"a StatefulSet that makes progress": {
			given: policy.Observation{
				Sources: sources, Record: running(11 * time.Minute), Template: total(two),
				Status: workload.Status{Observed: true, Updated: 2},
			},
			action: policy.Conclude, after: 10 * time.Minute, template: total(two),
			check: recordIs(with(running(11*time.Minute), func(r *annotation.Record) {
				r.Last.Updated = 2
				r.Last.Progressed = now
			})), reason: "it has another deadline",
		},
		"a StatefulSet that Kubernetes has not observed": {
			given:  policy.Observation{Sources: sources, Record: running(11 * time.Minute), Template: total(two)},
			action: policy.Conclude, after: 10 * time.Minute, template: total(two),
			check:  recordIs(with(running(11*time.Minute), func(r *annotation.Record) { r.Last.Progressed = now })),
			reason: "the content is not to blame: the deadline begins again",
		},
		"a StatefulSet that was observed late and could not begin": {
			given: policy.Observation{
				Sources: sources, Template: total(two), Status: workload.Status{Observed: true, Ordered: true},
				Record: with(running(time.Hour), func(r *annotation.Record) {
					r.Last.Unready = true
					r.Last.Progressed = now.Add(-10 * time.Minute)
				}),
			},
			action: policy.Conclude, template: total(two), events: []string{"RestartNeeded"}, state: "RestartNeeded",
			check: recordIs(with(rolled(one, two, time.Hour, annotation.Stuck), func(r *annotation.Record) {
				r.Last.Unready = true
				r.Last.Progressed = now.Add(-10 * time.Minute)
			})),
			reason: "an unready pod of an earlier template blocks it: the content has not failed",
		},
		"a StatefulSet that makes none": {
			given:  policy.Observation{Sources: sources, Record: running(11 * time.Minute), Template: total(two), Status: set},
			action: policy.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: recordIs(rolled(one, two, 11*time.Minute, annotation.Failed)), reason: "its deadline is over",
		},
		"behind again, and the last one is stuck": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set,
				Record: with(running(time.Hour), func(r *annotation.Record) {
					r.Pending = total(three)
					r.Since = now.Add(-time.Second)
					r.Changed = now.Add(-time.Second)
				}),
			},
			action: policy.Wait, wait: "QuietPeriod", after: 4 * time.Second, template: total(two),
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if d.Record.Last.Result != annotation.Failed || d.Result != annotation.Failed {
					t.Errorf("its result is %q, reported as %q", d.Record.Last.Result, d.Result)
				}
			}, reason: "other workloads wait for its slot",
		},
		"behind again, and the last one is under way": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set,
				Settings: annotation.Settings{Window: at("0 22 * * *;2h")},
				Record: with(running(time.Minute), func(r *annotation.Record) {
					r.Pending = total(three)
					r.Since = now.Add(-time.Minute)
					r.Changed = now.Add(-time.Minute)
				}),
			},
			action: policy.Wait, wait: "OutsideWindow", after: 9 * time.Minute, template: total(two),
			events: []string{"OutsideWindow"}, state: "OutsideWindow", reason: "its deadline comes before the window",
		},
		"merged while it is under way": {
			given: policy.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set, Record: running(time.Minute), Renewed: true,
			},
			action: policy.Merge, template: total(two), check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				if d.Record.Last.Result != annotation.Superseded {
					t.Errorf("its result is %q", d.Record.Last.Result)
				}
			}, reason: "another manager owns the rollout now",
		},
		"rolled back": {
			given: policy.Observation{
				Sources: sources, Record: with(running(time.Hour), func(r *annotation.Record) { r.Last.Before = total(one) }),
				Template: total(two), Status: exceeded, Settings: annotation.Settings{OnFailure: annotation.Rollback},
			},
			action: policy.Rollback, template: total(one), events: []string{"RolledBack"}, state: "RolledBack",
			check: recordIs(with(rolled(one, two, time.Hour, annotation.RolledBack), func(r *annotation.Record) {
				r.Template = total(one)
				r.Last.Before = total(one)
			})), reason: "the template is what it was",
		},
		"the first rollout, rolled back": {
			given: policy.Observation{
				Sources: sources, Record: running(time.Hour), Template: total(two), Status: exceeded,
				Settings: annotation.Settings{OnFailure: annotation.Rollback},
			},
			action: policy.Rollback, events: []string{"RolledBack"}, state: "RolledBack",
			check: recordIs(with(rolled(one, two, time.Hour, annotation.RolledBack), func(r *annotation.Record) {
				r.Template = annotation.None
			})), reason: "there was no digest before",
		},
		"after it was rolled back": {
			given: policy.Observation{Sources: sources, Record: with(rolled(one, two, time.Hour, annotation.RolledBack),
				func(r *annotation.Record) { r.Template = annotation.None })},
			action: policy.Nothing, events: []string{"RolledBack"}, state: "RolledBack",
			reason: "the same content is not tried again",
		},
		"another content after it was rolled back": {
			given: policy.Observation{
				Sources: []digest.Source{three},
				Record: with(rolled(one, two, time.Hour, annotation.RolledBack),
					func(r *annotation.Record) { r.Template = annotation.None }),
			},
			action: policy.Wait, wait: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "it may be the repair",
		},
		"the content from before, after it was rolled back": {
			given: policy.Observation{
				Sources: []digest.Source{one}, Template: total(one),
				Record: with(pending(two, one, time.Hour), func(r *annotation.Record) {
					r.Template = total(one)
					r.Last = rolled(one, two, time.Hour, annotation.RolledBack).Last
				}),
			},
			action: policy.Roll, events: []string{"RolloutStarted"},
			check: func(t *testing.T, d policy.Decision) {
				t.Helper()
				again := policy.Decide(policy.Observation{
					Enabled: true, Sources: []digest.Source{one}, Record: d.Record, Template: d.Template, References: "refs",
				})
				if again.Action != policy.Nothing {
					t.Errorf("and then it decides %s", again.Action)
				}
			},
			reason: "some pods started with what was bad, and the digest is the old one already: so it is taken out",
		},
		"held by another one's failure": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Failed: map[string]string{"ConfigMap/a": "Deployment b"},
			},
			action: policy.Wait, wait: "RolloutHeld", events: []string{"RolloutHeld"},
			state:  "RolloutHeld: others failed with the present content of ConfigMap/a",
			reason: "it would fail too",
		},
		"another one's failure with something else": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Failed: map[string]string{"ConfigMap/b": "Deployment b"},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"},
			reason: "that source does not cause this rollout",
		},
		"another one's failure, regardless": {
			given: policy.Observation{
				Sources: sources, Record: pending(one, two, time.Hour), Failed: map[string]string{"ConfigMap/a": "Deployment b"},
				Settings: annotation.Settings{OnFailure: annotation.Continue},
			},
			action: policy.Roll, template: total(two), events: []string{"RolloutStarted"}, reason: "the user asked for that",
		},
	})
}
