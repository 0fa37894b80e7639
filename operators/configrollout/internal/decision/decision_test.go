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
		"left by mistake": {
			see: decision.Observation{Sources: []digest.Source{one}, Record: brought(one), Invalid: []annotation.Invalid{
				{Name: annotation.Enabled, Outside: true, Err: errors.New("it is no boolean")},
				{Name: annotation.Window, Err: errors.New("it is none")},
			}},
			change: func(o *decision.Observation) { o.Enabled = false },
			action: decision.Release, events: []string{"InvalidAnnotation"}, state: "InvalidAnnotation: " + annotation.Enabled,
			check: remembers(annotation.Record{}), reason: "whoever takes no part is told why, and nothing else",
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
