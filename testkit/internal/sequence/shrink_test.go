package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

const head = `apiVersion: testkit.homeostat.dev/v1
kind: Database
metadata:
  name: orders
`

// TestShrink checks that the minimal failing sequence is found among 40 random steps with a planted cause.
func TestShrink(t *testing.T) {
	t.Parallel()
	s := database(t)
	rules := validity.NewRules(s)
	tests := map[string]struct {
		reason string
		plant  []func(spec map[string]any) // at every 9th step, on top of the present fields
		fails  func(sequence.Sequence) bool
		want   string
	}{
		"one manifest": {
			reason: "one value is enough, at any step",
			plant:  []func(map[string]any){set("members", int64(7))},
			fails: some(func(spec map[string]any) bool {
				members, ok := spec["members"].(int64)
				return ok && members >= 6
			}),
			want: head + "spec:\n  members: 6\n",
		},
		"one valid manifest": {
			reason: "fields required by the schema and its rules stay",
			plant: []func(map[string]any){
				set("backup", map[string]any{"enabled": true, "schedule": "0 3 * * *", "keep": int64(99)}),
			},
			fails: valid(t, rules, some(func(spec map[string]any) bool {
				backup, _ := spec["backup"].(map[string]any)
				keep, _ := backup["keep"].(int64)
				return backup["enabled"] == true && keep > 10
			})),
			want: head + "spec:\n  backup:\n    enabled: true\n    keep: 11\n    schedule: '0 3 '\n" +
				"  engine: postgres\n  version: \"15.4\"\n",
		},
		"a step down": {
			reason: "two manifests in which only one field and its siblings matter",
			plant:  []func(map[string]any){set("members", int64(8)), set("members", int64(5))},
			fails: pair(func(s, t map[string]any) bool {
				from, _ := s["members"].(int64)
				to, ok := t["members"].(int64)
				return ok && from > to && t["storage"] != nil
			}),
			want: head + "spec:\n  members: 1\n  storage: {}\n--- then\nspec.members: 1 -> 0\n",
		},
		"a change while something stays": {
			reason: "fields of both manifests are kept, and nothing else changes",
			plant: []func(map[string]any){
				set("arguments", []any{"-a", "-b", "-c", "-d"}), set("arguments", []any{"-d", "-a"}),
			},
			fails: pair(func(s, t map[string]any) bool {
				from, _ := s["arguments"].([]any)
				to, _ := t["arguments"].([]any)
				return slices.Contains(from, any("-b")) && !slices.Contains(to, any("-b")) &&
					t["engine"] == s["engine"] && t["engine"] != nil
			}),
			want: head + "spec:\n  arguments:\n  - -b\n  engine: postgres\n--- then\nspec.arguments: [\"-b\"] -> unset\n",
		},
		"there and back": {
			reason: "three manifests are needed",
			plant:  []func(map[string]any){set("paused", true), set("paused", false), set("paused", true)},
			fails:  pausesTwice,
			want:   head + "spec:\n  paused: true\n--- then\nspec.paused: true -> false\n--- then\nspec.paused: false -> true\n",
		},
		"a long string": {
			reason: "the minimal length",
			plant:  []func(map[string]any){set("timeout", strings.Repeat("x", 200))},
			fails: some(func(spec map[string]any) bool {
				timeout, _ := spec["timeout"].(string)
				return len(timeout) >= 40
			}),
			want: head + "spec:\n  timeout: " + strings.Repeat("x", 50) + "\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(repeat(1, 3)) {
				long := sequence.Objects(take(t, generator(t, s, rules, seed), 40))
				plant(long, tc.plant)
				before := fmt.Sprint(long)
				got, err := sequence.Shrink(t.Context(), long, tc.fails, sequence.ShrinkOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got.Sequence.String()); diff != "" || !got.Complete {
					t.Errorf("%s\nseed %d, %d calls, complete %v: -want +got:\n%s", tc.reason, seed, got.Calls, got.Complete, diff)
				}
				if fmt.Sprint(long) != before {
					t.Error("the sequence was changed")
				}
			}
		})
	}
}

func TestShrinkIsDeterministic(t *testing.T) {
	t.Parallel()
	long := sequence.Objects(take(t, generator(t, database(t), validity.AcceptAll{}, 3), 15))
	fails := pair(func(s, t map[string]any) bool { return !reflect.DeepEqual(s["users"], t["users"]) })
	var first []string
	for range repeat(4, 20) {
		var asked []string
		_, err := sequence.Shrink(t.Context(), long, func(s sequence.Sequence) bool {
			asked = append(asked, s.String())
			return fails(s)
		}, sequence.ShrinkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = asked
		}
		if diff := cmp.Diff(first, asked); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestShrinkObeysCallLimit(t *testing.T) {
	t.Parallel()
	long := sequence.Objects(take(t, generator(t, database(t), validity.AcceptAll{}, 3), 15))
	fails := pair(func(s, t map[string]any) bool { return !reflect.DeepEqual(s["users"], t["users"]) })
	whole := shrink(t, long, fails, 0)
	if !whole.Complete || whole.Calls > sequence.DefaultCalls {
		t.Fatalf("%d calls, complete %v", whole.Calls, whole.Complete)
	}
	for _, budget := range []int{1, 7, whole.Calls - 1, whole.Calls} {
		calls := 0
		seen := map[string]bool{}
		got := shrink(t, long, func(s sequence.Sequence) bool {
			calls++
			if id := fmt.Sprint(s); seen[id] {
				t.Errorf("tried twice:\n%s", id)
			} else {
				seen[id] = true
			}
			return fails(s)
		}, budget)
		if calls != got.Calls || calls > budget || got.Complete != (budget == whole.Calls) {
			t.Errorf("of %d calls %d were made, %d reported, complete %v", budget, calls, got.Calls, got.Complete)
		}
		if !fails(got.Sequence) {
			t.Errorf("with %d calls the result passes", budget)
		}
	}
}

func TestShrinkOfPassingSequence(t *testing.T) {
	t.Parallel()
	long := sequence.Sequence{sample(t)}
	got, err := sequence.Shrink(t.Context(), long, func(sequence.Sequence) bool { return false }, sequence.ShrinkOptions{})
	if !errors.Is(err, sequence.ErrPasses) || got.Calls != 1 {
		t.Errorf("%d calls, error %v", got.Calls, err)
	}
}

func TestShrinkIsInterrupted(t *testing.T) {
	t.Parallel()
	long := sequence.Objects(take(t, generator(t, database(t), validity.AcceptAll{}, 3), 15))
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	got, err := sequence.Shrink(ctx, long, func(s sequence.Sequence) bool {
		if calls++; calls == 5 {
			cancel()
		}
		return len(s) > 2
	}, sequence.ShrinkOptions{})
	if err != nil || got.Complete || calls != 5 || len(got.Sequence) <= 2 {
		t.Errorf("%d calls, %d manifests, complete %v, error %v", calls, len(got.Sequence), got.Complete, err)
	}
	_, err = sequence.Shrink(ctx, long, func(sequence.Sequence) bool { return true }, sequence.ShrinkOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// FuzzShrink checks that shrinking terminates with a failing sequence for any failure.
func FuzzShrink(f *testing.F) {
	s, obj := database(f), sample(f)
	f.Add(plainBytes(1, 8), uint16(3))
	f.Add(plainBytes(2, 20), uint16(777))
	f.Fuzz(func(t *testing.T, data []byte, salt uint16) {
		long, err := sequence.Decode(s, obj, data[:min(len(data), 80)])
		if err != nil {
			t.Fatal(err)
		}
		fails := func(s sequence.Sequence) bool { // arbitrary, but deterministic
			sum := uint16(len(s))
			for i := 1; i < len(s); i++ {
				for _, c := range schema.Diff(s[i-1], s[i]) {
					sum += uint16(len(c.ID)) * salt
				}
			}
			return sum%5 != 0
		}
		got, err := sequence.Shrink(t.Context(), long, fails, sequence.ShrinkOptions{Calls: 300})
		switch {
		case errors.Is(err, sequence.ErrPasses) && !fails(long):
		case err != nil:
			t.Fatal(err)
		case !fails(got.Sequence) || got.Calls > 300:
			t.Errorf("%d calls, and the result passes: %v", got.Calls, got.Sequence)
		}
	})
}

// plant makes a change at every 9th step that persists until the next.
func plant(long sequence.Sequence, changes []func(map[string]any)) {
	for i, f := range changes {
		from, to := 9*(i+1), 9*(i+2)
		if i == len(changes)-1 {
			to = from + 1
		}
		for _, obj := range long[from:to] {
			f(spec(obj))
		}
	}
}

func shrink(t *testing.T, s sequence.Sequence, fails func(sequence.Sequence) bool, calls int) sequence.Shrunk {
	t.Helper()
	got, err := sequence.Shrink(t.Context(), s, fails, sequence.ShrinkOptions{Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// pausesTwice fails if the object is paused, resumed and paused again.
func pausesTwice(s sequence.Sequence) bool {
	var states []string
	for _, obj := range s {
		states = append(states, fmt.Sprint(spec(obj)["paused"]))
	}
	return strings.Contains(strings.Join(slices.Compact(states), " "), "true false true")
}

func spec(obj *unstructured.Unstructured) map[string]any {
	content, _ := obj.Object["spec"].(map[string]any)
	return content
}

func set(field string, value any) func(map[string]any) {
	return func(spec map[string]any) { spec[field] = value }
}

// some fails if one of the manifests fails.
func some(fails func(spec map[string]any) bool) func(sequence.Sequence) bool {
	return func(s sequence.Sequence) bool {
		return slices.ContainsFunc(s, func(obj *unstructured.Unstructured) bool { return fails(spec(obj)) })
	}
}

// pair fails if one of the steps fails.
func pair(fails func(s, t map[string]any) bool) func(sequence.Sequence) bool {
	return func(s sequence.Sequence) bool {
		for i := 1; i < len(s); i++ {
			if fails(spec(s[i-1]), spec(s[i])) {
				return true
			}
		}
		return false
	}
}

// valid fails only if all manifests are valid.
func valid(t *testing.T, rules *validity.Rules, fails func(sequence.Sequence) bool) func(sequence.Sequence) bool {
	t.Helper()
	return func(s sequence.Sequence) bool {
		var from *unstructured.Unstructured
		for _, to := range s {
			verdict, err := rules.Validate(t.Context(), from, to)
			if err != nil || !verdict.Valid {
				return false
			}
			from = to
		}
		return fails(s)
	}
}
