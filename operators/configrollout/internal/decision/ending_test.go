package decision_test

import (
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/decision"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

func TestHowRolloutsEnd(t *testing.T) {
	t.Parallel()
	sources := []digest.Source{two}
	deployment := workload.Status{Seen: true, Watched: true}
	exceeded, set := workload.Status{Seen: true, Watched: true, Exceeded: true}, workload.Status{Seen: true}
	running := func(ago time.Duration) annotation.Record { return rolled(one, two, ago, "") }
	run(t, map[string]testCase{
		"under way": {
			see:    decision.Observation{Sources: sources, Record: running(time.Hour), Template: total(two), Status: deployment},
			action: decision.Nothing, template: total(two), reason: "Kubernetes watches the time",
		},
		"complete": {
			see: decision.Observation{
				Sources: sources, Record: running(time.Minute), Template: total(two),
				Status: workload.Status{Complete: true},
			},
			action: decision.Conclude, template: total(two), events: []string{"RolloutCompleted"},
			check: remembers(rolled(one, two, time.Minute, annotation.Completed)), reason: "it is remembered",
		},
		"failed": {
			see:    decision.Observation{Sources: sources, Record: running(time.Hour), Template: total(two), Status: exceeded},
			action: decision.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: remembers(rolled(one, two, time.Hour, annotation.Failed)), reason: "others are held by that",
		},
		"failed, and complete after all": {
			see: decision.Observation{
				Sources: sources, Record: rolled(one, two, time.Hour, annotation.Failed), Template: total(two),
				Status: workload.Status{Complete: true},
			},
			action: decision.Conclude, template: total(two), events: []string{"RolloutCompleted"},
			check: remembers(rolled(one, two, time.Hour, annotation.Completed)), reason: "nobody is held any more",
		},
		"a StatefulSet that could not begin": {
			see: decision.Observation{
				Sources: sources, Template: total(two), Status: workload.Status{Seen: true, Ordered: true},
				Record: with(running(10*time.Minute), func(r *annotation.Record) { r.Last.Unready = true }),
			},
			action: decision.Conclude, template: total(two), events: []string{"RestartNeeded"}, state: "RestartNeeded",
			check: remembers(with(rolled(one, two, 10*time.Minute, annotation.Stuck), func(r *annotation.Record) {
				r.Last.Unready = true
			})),
			reason: "a pod of an earlier template is in the way: the content has not failed",
		},
		"a StatefulSet that can begin at last": {
			see: decision.Observation{
				Sources: sources, Template: total(two), Status: workload.Status{Seen: true, Ordered: true, Updated: 1},
				Record: with(rolled(one, two, time.Hour, annotation.Stuck), func(r *annotation.Record) { r.Last.Unready = true }),
			},
			action: decision.Conclude, template: total(two), events: []string{"RestartNeeded"}, state: "RestartNeeded",
			check: remembers(with(rolled(one, two, time.Hour, ""), func(r *annotation.Record) {
				r.Last.Unready, r.Last.Updated, r.Last.Progressed = true, 1, now
			})),
			reason: "somebody has deleted the pod: the rollout goes on, and has its deadline anew",
		},
		"a StatefulSet within its time": {
			see:    decision.Observation{Sources: sources, Record: running(4 * time.Minute), Template: total(two), Status: set},
			action: decision.Nothing, after: 6 * time.Minute, template: total(two), reason: "six minutes are left",
		},
		"a StatefulSet that makes progress": {
			see: decision.Observation{
				Sources: sources, Record: running(11 * time.Minute), Template: total(two),
				Status: workload.Status{Seen: true, Updated: 2},
			},
			action: decision.Conclude, after: 10 * time.Minute, template: total(two),
			check: remembers(with(running(11*time.Minute), func(r *annotation.Record) {
				r.Last.Updated, r.Last.Progressed = 2, now
			})), reason: "it has another deadline",
		},
		"a StatefulSet that makes none": {
			see:    decision.Observation{Sources: sources, Record: running(11 * time.Minute), Template: total(two), Status: set},
			action: decision.Conclude, template: total(two), events: []string{"RolloutFailed"}, state: "RolloutFailed",
			check: remembers(rolled(one, two, 11*time.Minute, annotation.Failed)), reason: "its deadline is over",
		},
		"behind again, and the last one is stuck": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set,
				Record: with(running(time.Hour), func(r *annotation.Record) {
					r.Pending, r.Since, r.Changed = total(three), now.Add(-time.Second), now.Add(-time.Second)
				}),
			},
			action: decision.Wait, because: "QuietPeriod", after: 4 * time.Second, template: total(two),
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if d.Record.Last.Result != annotation.Failed || d.Result != annotation.Failed {
					t.Errorf("its result is %q, told as %q", d.Record.Last.Result, d.Result)
				}
			}, reason: "others wait for its place",
		},
		"behind again, and the last one is under way": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set,
				Settings: annotation.Settings{Window: at("0 22 * * *;2h")},
				Record: with(running(time.Minute), func(r *annotation.Record) {
					r.Pending, r.Since, r.Changed = total(three), now.Add(-time.Minute), now.Add(-time.Minute)
				}),
			},
			action: decision.Wait, because: "OutsideWindow", after: 9 * time.Minute, template: total(two),
			events: []string{"OutsideWindow"}, state: "OutsideWindow", reason: "its deadline comes before the window",
		},
		"merged while it is under way": {
			see: decision.Observation{
				Sources: []digest.Source{three}, Template: total(two), Status: set, Record: running(time.Minute), Renewed: true,
			},
			action: decision.Merge, template: total(two), check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				if d.Record.Last.Result != annotation.Superseded {
					t.Errorf("its result is %q", d.Record.Last.Result)
				}
			}, reason: "what becomes of the template is not its own doing any more",
		},
		"rolled back": {
			see: decision.Observation{
				Sources: sources, Record: with(running(time.Hour), func(r *annotation.Record) { r.Last.Before = total(one) }),
				Template: total(two), Status: exceeded, Settings: annotation.Settings{OnFailure: annotation.Rollback},
			},
			action: decision.Rollback, template: total(one), events: []string{"RolledBack"}, state: "RolledBack",
			check: remembers(with(rolled(one, two, time.Hour, annotation.RolledBack), func(r *annotation.Record) {
				r.Template, r.Last.Before = total(one), total(one)
			})), reason: "the template is what it was",
		},
		"the first rollout, rolled back": {
			see: decision.Observation{
				Sources: sources, Record: running(time.Hour), Template: total(two), Status: exceeded,
				Settings: annotation.Settings{OnFailure: annotation.Rollback},
			},
			action: decision.Rollback, events: []string{"RolledBack"}, state: "RolledBack",
			check: remembers(with(rolled(one, two, time.Hour, annotation.RolledBack), func(r *annotation.Record) {
				r.Template = annotation.None
			})), reason: "there was no digest before",
		},
		"after it was rolled back": {
			see: decision.Observation{Sources: sources, Record: with(rolled(one, two, time.Hour, annotation.RolledBack),
				func(r *annotation.Record) { r.Template = annotation.None })},
			action: decision.Nothing, events: []string{"RolledBack"}, state: "RolledBack",
			reason: "the same content is not tried again",
		},
		"another content after it was rolled back": {
			see: decision.Observation{
				Sources: []digest.Source{three},
				Record: with(rolled(one, two, time.Hour, annotation.RolledBack),
					func(r *annotation.Record) { r.Template = annotation.None }),
			},
			action: decision.Wait, because: "QuietPeriod", after: quiet, events: []string{"RolloutPending"},
			reason: "that may be the repair",
		},
		"the content from before, after it was rolled back": {
			see: decision.Observation{
				Sources: []digest.Source{one}, Template: total(one),
				Record: with(behind(two, one, time.Hour), func(r *annotation.Record) {
					r.Template, r.Last = total(one), rolled(one, two, time.Hour, annotation.RolledBack).Last
				}),
			},
			action: decision.Roll, events: []string{"RolloutStarted"},
			check: func(t *testing.T, d decision.Decision) {
				t.Helper()
				again := decision.Decide(decision.Observation{
					Enabled: true, Sources: []digest.Source{one}, Record: d.Record, Template: d.Template, References: "refs",
				})
				if again.Action != decision.Nothing {
					t.Errorf("and then it decides %s", again.Action)
				}
			},
			reason: "some pods started with what was bad, and the digest is the old one already: so it is taken out",
		},
		"held by another one's failure": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Failed: map[string]string{"ConfigMap/a": "Deployment b"},
			},
			action: decision.Wait, because: "RolloutHeld", events: []string{"RolloutHeld"},
			state:  "RolloutHeld: others failed with the present content of ConfigMap/a",
			reason: "the same would become of it",
		},
		"another one's failure with something else": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Failed: map[string]string{"ConfigMap/b": "Deployment b"},
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"},
			reason: "that is not what makes this one roll",
		},
		"another one's failure, regardless": {
			see: decision.Observation{
				Sources: sources, Record: behind(one, two, time.Hour), Failed: map[string]string{"ConfigMap/a": "Deployment b"},
				Settings: annotation.Settings{OnFailure: annotation.Continue},
			},
			action: decision.Roll, template: total(two), events: []string{"RolloutStarted"}, reason: "the user asked for that",
		},
	})
}
