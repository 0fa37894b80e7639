package decision_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/decision"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/window"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const quiet = 5 * time.Second

// of is a ConfigMap with that content, used as a whole.
func of(name, value string) digest.Source {
	ref := reference.Ref{Kind: reference.ConfigMap, Name: name, All: true, Required: true}
	return digest.NewSource("default", ref, digest.Content{Exists: true, Keys: digest.Of(map[string]string{"k": value}, nil)})
}

var gone = digest.NewSource("default", reference.Ref{Kind: reference.ConfigMap, Name: "a", All: true, Required: true},
	digest.Content{})

func total(sources ...digest.Source) string { return digest.Total(sources) }

var one, two, three = of("a", "1"), of("a", "2"), of("a", "3")

// brought is what is remembered of a workload that was brought to these sources.
func brought(sources ...digest.Source) annotation.Record {
	return annotation.Record{Observed: total(sources...), Sources: digest.Sums(sources), References: "refs"}
}

// behind is what is remembered of one that was brought to the first, and for which the second is pending for so long.
func behind(from, to digest.Source, since time.Duration) annotation.Record {
	r := brought(from)
	r.Pending, r.Since, r.Changed = total(to), now.Add(-since), now.Add(-since)
	return r
}

// rolled is what is remembered of one that was rolled from the first to the second source, so long ago.
func rolled(from, to digest.Source, ago time.Duration, result annotation.Result) annotation.Record {
	r := brought(to)
	r.Last = &annotation.Rollout{
		Time: now.Add(-ago), Sources: []string{"ConfigMap/a"}, From: total(from), To: total(to),
		Result: result,
	}
	return r
}

// reverted adds that somebody took the digest back so often, and that it is about to be put back.
func reverted(r annotation.Record, times int) annotation.Record {
	r.Last.Reverts = times
	r.Pending, r.Since, r.Changed = r.Observed, now.Add(-time.Minute), now.Add(-time.Minute)
	return r
}

func with(r annotation.Record, change func(*annotation.Record)) annotation.Record {
	change(&r)
	return r
}

type testCase struct {
	// What differs from a workload that takes part and waits for nothing.
	see    decision.Observation
	change func(*decision.Observation)

	action   decision.Action
	because  string
	after    time.Duration
	template string
	events   []string
	state    string
	check    func(*testing.T, decision.Decision)
	reason   string
}

func run(t *testing.T, cases map[string]testCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tc.see
			o.Enabled, o.Slot, o.Now, o.References, o.Deadline = true, true, now, "refs", 10*time.Minute
			o.Settings.Quiet = quiet
			if o.Settings.OnFailure == "" {
				o.Settings.OnFailure = annotation.Hold
			}
			if tc.change != nil {
				tc.change(&o)
			}
			d := decision.Decide(o)
			if d.Action != tc.action || d.Because != tc.because || d.After != tc.after {
				t.Errorf("%s: decided %s (%s), after %v, want %s (%s), after %v",
					tc.reason, d.Action, d.Because, d.After, tc.action, tc.because, tc.after)
			}
			if d.Template != tc.template {
				t.Errorf("%s: the template gets the digest %q, want %q", tc.reason, d.Template, tc.template)
			}
			var events []string
			for _, e := range d.Events {
				events = append(events, e.Reason)
			}
			if diff := cmp.Diff(tc.events, events); diff != "" {
				t.Errorf("%s: events, -want +got:\n%s", tc.reason, diff)
			}
			if !strings.HasPrefix(d.Record.State, tc.state) || tc.state == "" && d.Record.State != "" {
				t.Errorf("%s: the state is %q, want %q", tc.reason, d.Record.State, tc.state)
			}
			if tc.check != nil {
				tc.check(t, d)
			}
		})
	}
}

// remembers checks the record that is to be written.
func remembers(want annotation.Record) func(*testing.T, decision.Decision) {
	return func(t *testing.T, d decision.Decision) {
		t.Helper()
		d.Record.State = ""
		if diff := cmp.Diff(want, d.Record); diff != "" {
			t.Errorf("record, -want +got:\n%s", diff)
		}
	}
}

func TestWithoutAChange(t *testing.T) {
	t.Parallel()
	run(t, map[string]testCase{
		"first seen": {
			see: decision.Observation{Sources: []digest.Source{one}}, action: decision.Baseline,
			check: remembers(brought(one)), reason: "to be adopted rolls nothing",
		},
		"first seen, nothing used": {
			action: decision.Baseline, check: remembers(with(brought(),
				func(r *annotation.Record) { r.Sources = map[string]string{} })),
			reason: "it may use something later",
		},
		"as it was": {
			see: decision.Observation{Sources: []digest.Source{one}, Record: brought(one)}, action: decision.Nothing,
			check: remembers(brought(one)), reason: "nothing is written",
		},
		"as it was rolled": {
			see: decision.Observation{
				Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, annotation.Completed), Template: total(two),
			},
			action: decision.Nothing, template: total(two), reason: "nothing is written",
		},
		"left": {
			see:    decision.Observation{Sources: []digest.Source{two}, Record: behind(one, two, time.Hour), Template: total(one)},
			change: func(o *decision.Observation) { o.Enabled = false },
			action: decision.Release, template: total(one), check: remembers(annotation.Record{}),
			reason: "nothing is remembered, and the template stays",
		},
		"changed and changed back": {
			see: decision.Observation{Sources: []digest.Source{one}, Record: behind(one, two, time.Second)}, action: decision.Merge,
			check: remembers(brought(one)), reason: "nothing is pending any more",
		},
		"metadata was lost": {
			see:    decision.Observation{Sources: []digest.Source{one}, Template: total(one)},
			action: decision.Baseline, template: total(one), check: remembers(brought(one)), reason: "the template knows",
		},
		"another key is used": {
			see: decision.Observation{Sources: []digest.Source{one, of("b", "1")}, Record: brought(one)}, action: decision.Merge,
			check: remembers(brought(one, of("b", "1"))), reason: "by a setting, such as --secrets: the template is the same",
		},
		"one less is used": {
			see: decision.Observation{
				Sources: []digest.Source{one}, Record: with(brought(one, of("b", "1")),
					func(r *annotation.Record) { r.References = "others" }),
			},
			action: decision.Merge, check: remembers(brought(one)), reason: "the template was changed, and nothing it uses was",
		},
		"another template uses more": {
			see: decision.Observation{
				Sources: []digest.Source{one, of("b", "1")}, Renewed: true,
				Record: with(brought(one), func(r *annotation.Record) { r.References = "others" }),
			},
			action: decision.Merge, check: remembers(brought(one, of("b", "1"))), reason: "its pods started with that content",
		},
	})
}

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
		"an annotation that cannot be read": {
			see: decision.Observation{
				Sources: []digest.Source{one}, Record: brought(one),
				Invalid: []annotation.Invalid{{Name: annotation.Window, Err: errors.New("it is wrong")}},
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

// To decide about what was decided changes nothing: an interrupted operator goes on where it was, and a quiet one writes
// nothing.
func TestDecidingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]decision.Observation{
		"adopted": {Sources: []digest.Source{one}},
		"behind":  {Sources: []digest.Source{two}, Record: brought(one)},
		"rolled":  {Sources: []digest.Source{two}, Record: behind(one, two, time.Hour)},
		"merged":  {Sources: []digest.Source{two}, Record: rolled(two, one, time.Hour, ""), Template: total(one), Renewed: true},
		"merged after the digest was taken away": {
			Sources: []digest.Source{two}, Record: rolled(two, one, time.Hour, annotation.Completed), Renewed: true,
		},
		"rolled back": {
			Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, ""), Template: total(two),
			Status: workload.Status{Exceeded: true}, Settings: annotation.Settings{OnFailure: annotation.Rollback},
		},
		"held": {
			Sources: []digest.Source{two}, Record: behind(one, two, time.Hour),
			Failed: map[string]string{"ConfigMap/a": "b"},
		},
		"missing": {Sources: []digest.Source{gone}, Record: brought(one)},
		"failed": {
			Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, ""), Template: total(two),
			Status: workload.Status{Exceeded: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Enabled, o.Slot, o.Now, o.References, o.Deadline = true, true, now, "refs", time.Minute
			o.Settings.Quiet = quiet
			first := decision.Decide(o)
			o.Record, o.Template, o.Renewed = first.Record, first.Template, false
			second := decision.Decide(o)
			if diff := cmp.Diff(first.Record,
				second.Record); diff != "" || first.Template != second.Template || len(second.Events) > 0 {
				t.Errorf("template %q, then %q, events %v, record -first +second:\n%s",
					first.Template, second.Template, second.Events, diff)
			}
		})
	}
}
