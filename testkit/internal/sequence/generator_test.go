package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

func TestSameSeedSameSequence(t *testing.T) {
	t.Parallel()
	s := database(t)
	const steps = 6
	first := describe(take(t, generator(t, s, validity.AcceptAll{}, 7), steps))
	for range repeat(4, 20) {
		if got := describe(take(t, generator(t, s, validity.AcceptAll{}, 7), steps)); !slices.Equal(got, first) {
			t.Fatalf("-first +other:\n%s", cmp.Diff(first, got))
		}
	}
	if other := describe(take(t, generator(t, s, validity.AcceptAll{}, 8), steps)); slices.Equal(other, first) {
		t.Error("another seed gives the same sequence")
	}
}

// TestSeedIsPortable checks that the seed of a report gives the same sequence on another machine.
func TestSeedIsPortable(t *testing.T) {
	t.Parallel()
	want := []string{
		"the sample",
		`spec.podLabels[testkit.example.com/label]: unset -> "testkit"`,
		`spec.backup.schedule: "0 3 * * *" -> "0 0 31 2 *"; ` +
			`metadata.annotations: unset -> {"testkit.example.com/annotation":"testkit"}; ` +
			`spec.exposure.nodePort.port: 30001 -> 30000`,
		`spec.sidecar: unset -> {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"testkit"}}`,
		`spec.resources.requests.testkit: unset -> "1Gi"`,
		`metadata.labels[testkit.example.com/label]: unset -> "testkit"`,
		"spec.maxUnavailable: unset -> 2147483647",
		`spec.logLevel: unset -> "error"; spec.notBefore: unset -> "2030-01-02T03:04:05.678901Z"`,
	}
	if diff := cmp.Diff(want, describe(take(t, generator(t, database(t), validity.AcceptAll{}, 1), 8))); diff != "" {
		t.Errorf("if the values or weights were changed on purpose, take the new ones: -want +got:\n%s", diff)
	}
}

// repeat returns the number of repetitions for checks of deterministic results: long only on request.
func repeat(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

func TestStepsAreChangesOfTheLastObject(t *testing.T) {
	t.Parallel()
	steps := take(t, generator(t, database(t), validity.AcceptAll{}, 3), 100)
	if !reflect.DeepEqual(steps[0].Object, sample(t)) {
		t.Errorf("the first step is not the sample: %v", steps[0])
	}
	several, back := 0, 0
	for i, step := range steps[1:] {
		got := steps[i].Object
		for _, c := range step.Changes {
			var ok bool
			if got, ok = c.Apply(got); !ok {
				t.Fatalf("step %d: %v cannot be applied", i+1, c)
			}
		}
		if !reflect.DeepEqual(got, step.Object) {
			t.Fatalf("step %d: -object +changes:\n%s", i+1, cmp.Diff(step.Object, got))
		}
		if reflect.DeepEqual(step.Object, steps[i].Object) {
			t.Errorf("step %d changes nothing: %v", i+1, step)
		}
		if len(step.Changes) > 1 {
			several++
		}
		if reflect.DeepEqual(step.Object, steps[0].Object) {
			back++
		}
	}
	if several < 7 || several > 50 || back < 1 || back > 20 {
		t.Errorf("of 100 steps %d have several changes and %d return to the sample", several, back)
	}
}

// TestCoverageGrows checks that unexercised properties are preferred: all properties are soon exercised, and more of
// them than by chance.
func TestCoverageGrows(t *testing.T) {
	t.Parallel()
	g := generator(t, database(t), validity.AcceptAll{}, 5)
	take(t, g, 120)
	coverage := g.Coverage()
	if all := len(coverage.Properties); coverage.Exercised() < all*85/100 {
		t.Errorf("after 120 steps: %v", coverage)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	s := database(t)
	accept := func(c string) validity.Validator { // only steps that change this alone
		return oracle(func(from, to *unstructured.Unstructured) bool {
			if from == nil {
				return true
			}
			touched := s.Touched(from, to)
			return len(touched) == 1 && touched[0] == c
		})
	}
	g := generator(t, s, accept("spec.members"), 2)
	for range 3 {
		if _, err := g.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	coverage := g.Coverage()
	refused := 0
	want := map[string]int{"spec.members": 2}
	for _, p := range coverage.Properties {
		refused += p.Rejected
		if p.Exercised != want[p.Name] {
			t.Errorf("%s was exercised %d times", p.Name, p.Exercised)
		}
	}
	if coverage.Exercised() != 1 || len(coverage.Missed()) != len(coverage.Properties)-1 || refused == 0 {
		t.Errorf("exercised %d, rejected %d", coverage.Exercised(), refused)
	}
	first, _, _ := strings.Cut(coverage.String(), "\n")
	if first != fmt.Sprintf("exercised 1 of %d properties", len(coverage.Properties)) {
		t.Errorf("the report begins with %q", first)
	}
	if n := strings.Count(coverage.String(), "\n  never: "); n != len(coverage.Missed()) {
		t.Errorf("the report names %d properties:\n%v", n, coverage)
	}
}

func TestOracleDecides(t *testing.T) {
	t.Parallel()
	var accepted []*unstructured.Unstructured
	calls := 0
	odd := oracle(func(from, to *unstructured.Unstructured) bool {
		if from != nil && !reflect.DeepEqual(from, accepted[len(accepted)-1]) {
			t.Errorf("the validator got a step that does not start from the last valid object:\n%s",
				cmp.Diff(accepted[len(accepted)-1], from))
		}
		calls++
		if calls%3 == 0 {
			return false
		}
		accepted = append(accepted, to.DeepCopy())
		return true
	})
	steps := take(t, generator(t, database(t), odd, 4), 30)
	if diff := cmp.Diff(accepted, []*unstructured.Unstructured(sequence.Objects(steps))); diff != "" {
		t.Errorf("-accepted +steps:\n%s", diff)
	}
}

func TestNextFails(t *testing.T) {
	t.Parallel()
	s := database(t)
	t.Run("the sample is rejected", func(t *testing.T) {
		t.Parallel()
		_, err := generator(t, s, oracle(func(_, _ *unstructured.Unstructured) bool { return false }), 1).Next(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the sample is refused, give a valid one: no") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("all else is rejected", func(t *testing.T) {
		t.Parallel()
		g := generator(t, s, oracle(func(from, _ *unstructured.Unstructured) bool { return from == nil }), 1)
		_, err := g.Take(t.Context(), 2)
		var stuck *sequence.StuckError
		if !errors.As(err, &stuck) || stuck.Rejected == 0 || stuck.Last != "no" {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the validator fails", func(t *testing.T) {
		t.Parallel()
		away := errors.New("away")
		calls := 0
		g := generator(t, s, answer(func(_, _ *unstructured.Unstructured) (validity.Verdict, error) {
			if calls++; calls == 2 {
				return validity.Verdict{}, away
			}
			return validity.Verdict{Valid: true}, nil
		}), 1)
		steps, err := g.Take(t.Context(), 2)
		if !errors.Is(err, away) || len(steps) != 1 {
			t.Errorf("%d steps, error %v", len(steps), err)
		}
		if steps, err = g.Take(t.Context(), 2); err != nil || len(steps) != 2 {
			t.Errorf("the generator does not continue: %d steps, error %v", len(steps), err)
		}
	})
	t.Run("the sample has another kind", func(t *testing.T) {
		t.Parallel()
		other := sample(t)
		other.SetKind("Other")
		if _, err := sequence.New(s, other, validity.AcceptAll{}, 1); err == nil {
			t.Error("no error")
		}
	})
}

func TestTakeBack(t *testing.T) {
	t.Parallel()
	var from []*unstructured.Unstructured
	g := generator(t, database(t), oracle(func(f, _ *unstructured.Unstructured) bool {
		from = append(from, f)
		return true
	}), 6)
	steps := take(t, g, 3)
	g.UndoStep()
	g.UndoStep() // there is nothing to undo
	if _, err := g.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps[1].Object, from[len(from)-1]); diff != "" {
		t.Errorf("the next step does not start from the object before: %s", diff)
	}
}

// TestStepsAreValid checks that no step violates the rules of the schema, including transition rules, if they are the
// validator.
func TestStepsAreValid(t *testing.T) {
	t.Parallel()
	s := database(t)
	rules := &validity.Count{Validator: validity.NewRules(s)}
	g := generator(t, s, rules, 9)
	steps := take(t, g, 100)
	for i, step := range steps {
		if engine, _, _ := unstructured.NestedString(step.Object.Object, "spec", "engine"); engine != "postgres" {
			t.Errorf("step %d changes the engine, which cannot change: %v", i, step)
		}
	}
	if rules.Rejected() == 0 {
		t.Error("nothing was rejected, so the rules were not tested")
	}
	if c := g.Coverage(); c.Exercised() < len(c.Properties)*70/100 {
		t.Errorf("%v\n%v", c, rules)
	}
}

// oracle returns a validator that answers by a function.
func oracle(valid func(from, to *unstructured.Unstructured) bool) validity.Validator {
	return answer(func(from, to *unstructured.Unstructured) (validity.Verdict, error) {
		if valid(from, to) {
			return validity.Verdict{Valid: true}, nil
		}
		return validity.Verdict{Sentence: "no", Causes: []validity.Cause{{Message: "no"}}}, nil
	})
}

type answer func(from, to *unstructured.Unstructured) (validity.Verdict, error)

func (a answer) Validate(_ context.Context, from, to *unstructured.Unstructured) (validity.Verdict, error) {
	return a(from, to)
}

func generator(t testing.TB, s *schema.Schema, o validity.Validator, seed uint64) *sequence.Generator {
	t.Helper()
	g, err := sequence.New(s, sample(t), o, seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func take(t testing.TB, g *sequence.Generator, n int) []sequence.Step {
	t.Helper()
	steps, err := g.Take(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func describe(steps []sequence.Step) []string {
	all := make([]string, len(steps))
	for i, s := range steps {
		all[i] = s.String()
	}
	return all
}

func database(t testing.TB) *schema.Schema {
	t.Helper()
	data, err := os.ReadFile("../schema/testdata/crd/databases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Parse(data, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sample(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Read("../schema/testdata/database.yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj, err := database(t).Normal(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	return obj
}
