package sequence

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// ErrExhausted is what Next returns when the bytes of the sequence are used up.
var ErrExhausted = errors.New("the sequence has no further step")

// A StuckError is what Next returns when too many proposals in a row were refused.
type StuckError struct {
	// Refused is how many they were.
	Refused int
	// Last is what was said of the last of them.
	Last string
}

// Error names the last refusal, which most likely is what all had in common.
func (e *StuckError) Error() string {
	return fmt.Sprintf("no valid step is found: %d proposals were refused, the last because %s", e.Refused, e.Last)
}

// A Step is one object of a sequence.
type Step struct {
	// Object is the manifest. It is the caller's.
	Object *unstructured.Unstructured
	// Changes made it from the one before, in this order. The first step has none.
	Changes []schema.Change
}

// String names the changes.
func (s Step) String() string {
	if len(s.Changes) == 0 {
		return "the sample"
	}
	parts := make([]string, len(s.Changes))
	for i, c := range s.Changes {
		parts[i] = c.String()
	}
	return strings.Join(parts, "; ")
}

// A Generator makes a sequence of objects step by step. It must not be used concurrently. If its oracle compares with
// the stored object, as validity.DryRun does, each step has to be stored before the next is made.
type Generator struct {
	schema  *schema.Schema
	sample  *unstructured.Unstructured
	oracle  validity.Validator
	chooser chooser

	current *unstructured.Unstructured // nil before the first step
	before  *unstructured.Unstructured // what TakeBack returns to
	cover   *cover
	tried   map[string]int // how often a change was made, by what it is about
	refused map[string]int // how often a change was refused
}

// New makes a generator that chooses by a seed: the same one gives the same sequence, as long as the oracle gives the
// same answers. The sample is the first object; it should be valid, and be a manifest as a person would write it.
func New(s *schema.Schema, sample *unstructured.Unstructured, o validity.Validator, seed uint64) (*Generator, error) {
	return newGenerator(s, sample, o, newRandom(seed))
}

// FromBytes makes a generator that chooses by bytes, 4 for each change, and ends with them. Any bytes give a sequence.
// Where they differ, sequences differ in the change of those 4 bytes; what follows is the same as far as it can be.
func FromBytes(
	s *schema.Schema, sample *unstructured.Unstructured, o validity.Validator, data []byte,
) (*Generator, error) {
	return newGenerator(s, sample, o, &bytewise{data: data})
}

func newGenerator(
	s *schema.Schema, sample *unstructured.Unstructured, o validity.Validator, c chooser,
) (*Generator, error) {
	normal, err := s.Normal(sample)
	if err != nil {
		return nil, fmt.Errorf("making a sequence: %w", err)
	}
	return &Generator{
		schema: s, sample: schema.Manifest(normal), oracle: o, chooser: c,
		cover: newCover(s), tried: map[string]int{}, refused: map[string]int{},
	}, nil
}

// mostRefused is how many proposals in a row may be refused.
const mostRefused = 64

// Next makes the next step: the sample at first, then the last object with one change or a few that the oracle
// accepts. The error is ErrExhausted, a *StuckError, or the oracle's. After an error of the oracle the next call
// proposes something else.
func (g *Generator) Next(ctx context.Context) (Step, error) {
	if g.current == nil {
		return g.first(ctx)
	}
	last := ""
	for range mostRefused {
		step, ok := g.propose()
		if !ok {
			return Step{}, ErrExhausted
		}
		if len(step.Changes) == 0 || reflect.DeepEqual(step.Object.Object, g.current.Object) {
			last = "nothing changes"
			continue
		}
		verdict, err := g.oracle.Judge(ctx, g.current, step.Object)
		if err != nil {
			return Step{}, fmt.Errorf("making a step: %w", err)
		}
		if verdict.Valid {
			g.accept(step)
			return Step{Object: step.Object.DeepCopy(), Changes: step.Changes}, nil
		}
		last = verdict.Sentence
		g.refuse(step)
	}
	return Step{}, &StuckError{Refused: mostRefused, Last: last}
}

func (g *Generator) first(ctx context.Context) (Step, error) {
	verdict, err := g.oracle.Judge(ctx, nil, g.sample)
	if err != nil {
		return Step{}, fmt.Errorf("making the first step: %w", err)
	}
	if !verdict.Valid {
		return Step{}, fmt.Errorf("making the first step: the sample is refused, give a valid one: %s", verdict.Sentence)
	}
	g.current = g.sample
	return Step{Object: g.sample.DeepCopy()}, nil
}

func (g *Generator) accept(step Step) {
	g.cover.add(g.schema.Touched(g.current, step.Object))
	for _, c := range step.Changes {
		g.tried[about(c)]++
	}
	g.before, g.current = g.current, step.Object
}

func (g *Generator) refuse(step Step) {
	for _, c := range step.Changes {
		g.refused[about(c)]++
		g.cover.refuse(c.Property)
	}
}

// about identifies what a change does, wherever in a list it does it.
func about(c schema.Change) string { return c.Property + "/" + c.Kind }

// TakeBack undoes the last step: the next one starts from the object before. It is for when the object turned out to
// be refused after all. Only one step can be taken back.
func (g *Generator) TakeBack() {
	if g.before != nil {
		g.current, g.before = g.before, nil
	}
}

// Coverage says what the steps so far have exercised.
func (g *Generator) Coverage() Coverage { return g.cover.report() }

// Take makes the next n steps, or as many as the bytes give.
func (g *Generator) Take(ctx context.Context, n int) ([]Step, error) {
	var steps []Step
	for range n {
		step, err := g.Next(ctx)
		if errors.Is(err, ErrExhausted) {
			return steps, nil
		}
		if err != nil {
			return steps, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}
