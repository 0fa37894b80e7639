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

// ErrExhausted is returned by Next when the bytes of the sequence are used up.
var ErrExhausted = errors.New("the sequence has no further step")

// A StuckError is returned by Next when too many proposals in a row were rejected.
type StuckError struct {
	// Rejected is the number of rejected proposals.
	Rejected int
	// Last is the message of the last rejection.
	Last string
}

// Error includes the last rejection, because all of them probably have the same cause.
func (e *StuckError) Error() string {
	return fmt.Sprintf("no valid step is found: %d proposals were refused, the last because %s", e.Rejected, e.Last)
}

// A Step is one object of a sequence.
type Step struct {
	// Object is the manifest. The caller owns it.
	Object *unstructured.Unstructured
	// Changes lists the changes from the previous object, in order. The first step has none.
	Changes []schema.Change
}

// String lists the changes.
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

// A Generator generates a sequence of objects step by step. It is not safe for concurrent use. If its validator
// compares with the stored object, as validity.DryRun does, each step has to be stored before the next call of Next.
type Generator struct {
	schema  *schema.Schema
	sample  *unstructured.Unstructured
	oracle  validity.Validator
	chooser chooser

	current  *unstructured.Unstructured // nil before the first step
	before   *unstructured.Unstructured // restored by UndoStep
	cover    *cover
	tried    map[string]int // number of times a change was made, by its key
	rejected map[string]int // number of times a change was rejected
}

// New returns a generator that chooses by a seed. Equal seeds give equal sequences if the validator gives equal
// answers. The sample is the first object. It should be valid, and a manifest as a person would write it.
func New(s *schema.Schema, sample *unstructured.Unstructured, o validity.Validator, seed uint64) (*Generator, error) {
	return newGenerator(s, sample, o, newRandom(seed))
}

// FromBytes returns a generator that chooses by bytes, 4 for each change, and ends with them. Any bytes give a
// sequence. If 4 bytes differ, the change chosen by them differs. Later changes stay the same as far as possible.
func FromBytes(
	s *schema.Schema, sample *unstructured.Unstructured, o validity.Validator, data []byte,
) (*Generator, error) {
	return newGenerator(s, sample, o, &byteChooser{data: data})
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
		cover: newCover(s), tried: map[string]int{}, rejected: map[string]int{},
	}, nil
}

// maxRejections is the number of proposals in a row that may be rejected.
const maxRejections = 64

// Next returns the next step: first the sample, then the last object with one or a few changes that the validator
// accepts. The error is ErrExhausted, a *StuckError, or the validator's. After an error of the validator the next call
// proposes another change.
func (g *Generator) Next(ctx context.Context) (Step, error) {
	if g.current == nil {
		return g.first(ctx)
	}
	last := ""
	for range maxRejections {
		step, ok := g.propose()
		if !ok {
			return Step{}, ErrExhausted
		}
		if len(step.Changes) == 0 || reflect.DeepEqual(step.Object.Object, g.current.Object) {
			last = "nothing changes"
			continue
		}
		verdict, err := g.oracle.Validate(ctx, g.current, step.Object)
		if err != nil {
			return Step{}, fmt.Errorf("making a step: %w", err)
		}
		if verdict.Valid {
			g.accept(step)
			return Step{Object: step.Object.DeepCopy(), Changes: step.Changes}, nil
		}
		last = verdict.Sentence
		g.reject(step)
	}
	return Step{}, &StuckError{Rejected: maxRejections, Last: last}
}

func (g *Generator) first(ctx context.Context) (Step, error) {
	verdict, err := g.oracle.Validate(ctx, nil, g.sample)
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
		g.tried[changeKey(c)]++
	}
	g.before = g.current
	g.current = step.Object
}

func (g *Generator) reject(step Step) {
	for _, c := range step.Changes {
		g.rejected[changeKey(c)]++
		g.cover.reject(c.Property)
	}
}

// changeKey identifies the effect of a change, independent of the index in a list.
func changeKey(c schema.Change) string { return c.Property + "/" + c.Kind }

// UndoStep undoes the last step: the next one starts from the previous object. It is for objects that were rejected
// later. Only one step can be undone.
func (g *Generator) UndoStep() {
	if g.before != nil {
		g.current = g.before
		g.before = nil
	}
}

// Coverage returns the coverage of the steps so far.
func (g *Generator) Coverage() Coverage { return g.cover.report() }

// Take returns the next n steps, or fewer if the bytes are used up.
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
