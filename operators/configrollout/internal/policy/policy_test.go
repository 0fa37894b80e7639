package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const quiet = 5 * time.Second

// source returns a ConfigMap with that content, used as a whole.
func source(name, value string) digest.Source {
	ref := reference.Ref{Kind: reference.ConfigMap, Name: name, All: true, Required: true}
	keys := digest.KeySums(map[string]string{"k": value}, nil)
	return digest.NewSource("default", ref, digest.Content{Exists: true, Keys: keys})
}

var missing = digest.NewSource("default", reference.Ref{Kind: reference.ConfigMap, Name: "a", All: true, Required: true},
	digest.Content{})

func total(sources ...digest.Source) string { return digest.Total(sources) }

var one, two, three = source("a", "1"), source("a", "2"), source("a", "3")

// recordOf returns the record of a workload that was brought to these sources.
func recordOf(sources ...digest.Source) annotation.Record {
	return annotation.Record{Observed: total(sources...), Sources: digest.Sums(sources), References: "refs"}
}

// pending returns the record of a workload with the content from and a pending change to another content, for that
// long.
func pending(from, to digest.Source, since time.Duration) annotation.Record {
	r := recordOf(from)
	r.Pending = total(to)
	r.Since = now.Add(-since)
	r.Changed = now.Add(-since)
	return r
}

// rolled returns the record of a workload that was rolled from one content to another, that long ago.
func rolled(from, to digest.Source, ago time.Duration, result annotation.Result) annotation.Record {
	r := recordOf(to)
	r.Last = &annotation.Rollout{
		Time: now.Add(-ago), Sources: []string{"ConfigMap/a"}, From: total(from), To: total(to),
		Result: result,
	}
	return r
}

// reverted adds that number of reverts, and that the digest is about to be restored.
func reverted(r annotation.Record, times int) annotation.Record {
	r.Last.Reverts = times
	r.Pending = r.Observed
	r.Since = now.Add(-time.Minute)
	r.Changed = now.Add(-time.Minute)
	return r
}

func with(r annotation.Record, change func(*annotation.Record)) annotation.Record {
	change(&r)
	return r
}

type testCase struct {
	// What differs from an enabled workload without a delay.
	given  policy.Observation
	change func(*policy.Observation)

	action   policy.Action
	wait     string
	after    time.Duration
	template string
	events   []string
	state    string
	check    func(*testing.T, policy.Decision)
	reason   string
}

func run(t *testing.T, cases map[string]testCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tc.given
			o.Enabled = true
			o.Slot = true
			o.Now = now
			o.References = "refs"
			o.Deadline = 10 * time.Minute
			o.Settings.Quiet = quiet
			if o.Settings.OnFailure == "" {
				o.Settings.OnFailure = annotation.Hold
			}
			if tc.change != nil {
				tc.change(&o)
			}
			d := policy.Decide(o)
			if d.Action != tc.action || d.WaitReason != tc.wait || d.RequeueAfter != tc.after {
				t.Errorf("%s: decided %s (%s), after %v, want %s (%s), after %v",
					tc.reason, d.Action, d.WaitReason, d.RequeueAfter, tc.action, tc.wait, tc.after)
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

// recordIs checks the record of the decision.
func recordIs(want annotation.Record) func(*testing.T, policy.Decision) {
	return func(t *testing.T, d policy.Decision) {
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
			given: policy.Observation{Sources: []digest.Source{one}}, action: policy.Baseline,
			check: recordIs(recordOf(one)), reason: "adoption causes no rollout",
		},
		"first seen, nothing used": {
			action: policy.Baseline, check: recordIs(with(recordOf(),
				func(r *annotation.Record) { r.Sources = map[string]string{} })),
			reason: "it may use something later",
		},
		"as it was": {
			given: policy.Observation{Sources: []digest.Source{one}, Record: recordOf(one)}, action: policy.Nothing,
			check: recordIs(recordOf(one)), reason: "nothing is written",
		},
		"as it was rolled": {
			given: policy.Observation{
				Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, annotation.Completed), Template: total(two),
			},
			action: policy.Nothing, template: total(two), reason: "nothing is written",
		},
		"left": {
			given:  policy.Observation{Sources: []digest.Source{two}, Record: pending(one, two, time.Hour), Template: total(one)},
			change: func(o *policy.Observation) { o.Enabled = false },
			action: policy.Release, template: total(one), check: recordIs(annotation.Record{}),
			reason: "the record is removed, and the template stays",
		},
		"disabled by mistake": {
			given: policy.Observation{Sources: []digest.Source{one}, Record: recordOf(one), Invalid: []annotation.Invalid{
				{Name: annotation.Enabled, AffectsEnabled: true, Err: errors.New("it is no boolean")},
				{Name: annotation.Window, Err: errors.New("it is none")},
			}},
			change: func(o *policy.Observation) { o.Enabled = false },
			action: policy.Release, events: []string{"InvalidAnnotation"}, state: "InvalidAnnotation: " + annotation.Enabled,
			check: recordIs(annotation.Record{}), reason: "only the reason for being disabled is reported",
		},
		"changed and changed back": {
			given: policy.Observation{Sources: []digest.Source{one}, Record: pending(one, two, time.Second)}, action: policy.Merge,
			check: recordIs(recordOf(one)), reason: "nothing is pending any more",
		},
		"metadata was lost": {
			given:  policy.Observation{Sources: []digest.Source{one}, Template: total(one)},
			action: policy.Baseline, template: total(one), check: recordIs(recordOf(one)), reason: "the template has the digest",
		},
		"another key is used": {
			given: policy.Observation{Sources: []digest.Source{one, source("b", "1")}, Record: recordOf(one)}, action: policy.Merge,
			check: recordIs(recordOf(one, source("b", "1"))), reason: "by a setting, such as --secrets: the template is the same",
		},
		"one less is used": {
			given: policy.Observation{
				Sources: []digest.Source{one}, Record: with(recordOf(one, source("b", "1")),
					func(r *annotation.Record) { r.References = "others" }),
			},
			action: policy.Merge, check: recordIs(recordOf(one)), reason: "the template was changed, and nothing it uses was",
		},
		"another template uses more": {
			given: policy.Observation{
				Sources: []digest.Source{one, source("b", "1")}, Renewed: true,
				Record: with(recordOf(one), func(r *annotation.Record) { r.References = "others" }),
			},
			action: policy.Merge, check: recordIs(recordOf(one, source("b", "1"))), reason: "its pods started with that content",
		},
	})
}

// Decide is idempotent: a second decision changes nothing, so that a restarted operator continues and an idle one writes
// nothing.
func TestDecideIsIdempotent(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]policy.Observation{
		"adopted": {Sources: []digest.Source{one}},
		"behind":  {Sources: []digest.Source{two}, Record: recordOf(one)},
		"rolled":  {Sources: []digest.Source{two}, Record: pending(one, two, time.Hour)},
		"merged":  {Sources: []digest.Source{two}, Record: rolled(two, one, time.Hour, ""), Template: total(one), Renewed: true},
		"merged after the digest was taken away": {
			Sources: []digest.Source{two}, Record: rolled(two, one, time.Hour, annotation.Completed), Renewed: true,
		},
		"rolled back": {
			Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, ""), Template: total(two),
			Status: workload.Status{DeadlineExceeded: true}, Settings: annotation.Settings{OnFailure: annotation.Rollback},
		},
		"held": {
			Sources: []digest.Source{two}, Record: pending(one, two, time.Hour),
			Failed: map[string]string{"ConfigMap/a": "b"},
		},
		"missing": {Sources: []digest.Source{missing}, Record: recordOf(one)},
		"failed": {
			Sources: []digest.Source{two}, Record: rolled(one, two, time.Hour, ""), Template: total(two),
			Status: workload.Status{DeadlineExceeded: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Enabled = true
			o.Slot = true
			o.Now = now
			o.References = "refs"
			o.Deadline = time.Minute
			o.Settings.Quiet = quiet
			first := policy.Decide(o)
			o.Record = first.Record
			o.Template = first.Template
			o.Renewed = false
			second := policy.Decide(o)
			if diff := cmp.Diff(first.Record,
				second.Record); diff != "" || first.Template != second.Template || len(second.Events) > 0 {
				t.Errorf("template %q, then %q, events %v, record -first +second:\n%s",
					first.Template, second.Template, second.Events, diff)
			}
		})
	}
}
