package gen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// choices determines the steps of a sequence.
type choices struct {
	generator *sequence.Generator
	oracle    *validity.Count
	where     *validity.DryRun // validates in the sequence's namespace, which is set when it exists
	undo      func() bool      // whether to return to the previous manifest
}

// bySeed returns choices made by a seed. Each sequence has different ones.
func (ex *exploration) bySeed(t testing.TB, number int64, i int) choices {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), uint64(i))) //nolint:gosec // choices are no secret
	return ex.choose(t, func(o validity.Validator) (*sequence.Generator, error) {
		return sequence.New(ex.schema, ex.sample, o, random.Uint64())
	}, func() bool { return random.IntN(3) == 0 }) // one in three
}

// byBytes returns choices encoded in bytes.
func (ex *exploration) byBytes(t testing.TB, data []byte) choices {
	t.Helper()
	return ex.choose(t, func(o validity.Validator) (*sequence.Generator, error) {
		return sequence.FromBytes(ex.schema, ex.sample, o, data)
	}, func() bool { return false })
}

func (ex *exploration) choose(
	t testing.TB, by func(validity.Validator) (*sequence.Generator, error), undo func() bool,
) choices {
	t.Helper()
	ch := choices{where: &validity.DryRun{Client: ex.k.Client, Suffix: !ex.schema.Namespaced}, undo: undo}
	ch.oracle = &validity.Count{Validator: ch.where}
	var err error
	if ch.generator, err = by(ch.oracle); err != nil {
		t.Fatal(err)
	}
	return ch
}

// runSequence runs one sequence and fails the test with its finding.
func (ex *exploration) runSequence(t testing.TB, ch choices, replay string) {
	t.Helper()
	f, how, err := ex.explore(t, ch)
	switch {
	case err != nil:
		t.Fatal(err)
	case f != nil:
		t.Fatal("\n" + f.text(replay, how))
	}
}

// explore runs one sequence and returns its shrunk finding, or nil, with a description of the reduction.
func (ex *exploration) explore(t testing.TB, ch choices) (f *finding, how string, _ error) {
	t.Helper()
	w := &sequenceRunner{c: ex, choices: ch}
	f, err := w.run(t.Context())
	t.Log("\n" + w.summary())
	switch {
	case err != nil:
		return nil, "", err
	case f != nil:
		f, how = ex.shrink(t.Context(), f)
		return f, how, nil
	case w.good == 0 && w.stuck > 0:
		return nil, "", errors.New("the operator could carry out none of the changes, so that nothing was explored")
	default:
		return nil, "", nil
	}
}

// sequenceRunner runs one sequence.
type sequenceRunner struct {
	choices

	c        *exploration
	until    time.Time // deadline for steps; zero means no deadline
	session  *session
	lastGood *unstructured.Unstructured // the last manifest that the operator realized

	stepsMade, good, stuck int
	steps                  []string // log of the steps and their outcomes
}

// run returns the first finding, or nil.
func (sr *sequenceRunner) run(ctx context.Context) (f *finding, err error) {
	sr.session, err = sr.c.open(ctx, "sequence")
	defer func() {
		entries, failure := sr.session.inner.Close()
		err = cmp.Or(err, failure)
		if f != nil && f.sequence == nil {
			f.sequence = sr.session.applied
			f.timeline = entries
		}
	}()
	if err != nil {
		return nil, err
	}
	sr.where.Namespace = sr.session.inner.Space().Namespace
	for sr.stepsMade < sr.c.steps && (sr.until.IsZero() || time.Now().Before(sr.until)) {
		step, err := sr.generator.Next(ctx)
		var none *sequence.StuckError
		switch {
		case errors.Is(err, sequence.ErrExhausted), errors.As(err, &none) && sr.stepsMade > 1:
			return sr.finish(ctx)
		case err != nil:
			return nil, err
		}
		if f, err := sr.step(ctx, step); f != nil || err != nil {
			return f, err
		}
	}
	return sr.finish(ctx)
}

// step makes one step. It undoes the step if the operator cannot realize the manifest, or by choice.
func (sr *sequenceRunner) step(ctx context.Context, step sequence.Step) (*finding, error) {
	r, err := sr.advance(ctx, step.Object, step.String())
	switch {
	case err != nil || r.violation != nil:
		return r.violation, err
	case r.invalid != "":
		sr.generator.UndoStep()
		return nil, nil //nolint:nilnil // no finding
	case r.stuck != "":
		sr.stuck++
		sr.generator.UndoStep()
		return sr.restoreLastGood(ctx)
	case sr.lastGood == nil:
		sr.lastGood = step.Object
		return nil, nil //nolint:nilnil // no finding
	}
	sr.good++
	if sr.stepsMade < sr.c.steps && sr.undo() {
		sr.generator.UndoStep()
		return sr.restoreLastGood(ctx)
	}
	sr.lastGood = step.Object
	return nil, nil //nolint:nilnil // no finding
}

// restoreLastGood returns to the last good manifest.
func (sr *sequenceRunner) restoreLastGood(ctx context.Context) (*finding, error) {
	if sr.lastGood == nil || equal(sr.lastGood, sr.session.applied[len(sr.session.applied)-1]) {
		return nil, nil //nolint:nilnil // no finding
	}
	r, err := sr.advance(ctx, sr.lastGood, "back to where it was good")
	if err == nil && r.violation == nil && r.invalid != "" {
		sr.lastGood = sr.session.applied[len(sr.session.applied)-1] // the change cannot be undone
	}
	return r.violation, err
}

// finish returns to the sample and deletes the custom resource.
func (sr *sequenceRunner) finish(ctx context.Context) (*finding, error) {
	sr.lastGood = sr.c.sample
	if f, err := sr.restoreLastGood(ctx); f != nil || err != nil {
		return f, err
	}
	return sr.session.end()
}

// advance makes a step and logs its outcome.
func (sr *sequenceRunner) advance(ctx context.Context, m *unstructured.Unstructured, what string) (result, error) {
	sr.stepsMade++
	began := time.Now()
	r, err := sr.session.advance(ctx, m, sr.c.thoroughRecheck())
	line := fmt.Sprintf("%2d %5.2f s  %s", sr.stepsMade, time.Since(began).Seconds(), what)
	switch {
	case err != nil:
	case r.invalid != "":
		line += "\n   refused by the API server: " + r.invalid
	case r.stuck != "":
		line += "\n   not carried out, and undone: " + r.stuck
	case r.violation != nil:
		line += "\n   " + r.violation.oracle + ": " + r.violation.message
	}
	sr.steps = append(sr.steps, line)
	return r, err
}

// summary returns the log of the steps and the coverage.
func (sr *sequenceRunner) summary() string {
	cover := sr.generator.Coverage()
	return fmt.Sprintf("%s\n%d of %d properties were changed\n%v",
		strings.Join(sr.steps, "\n"), cover.Exercised(), len(cover.Properties), sr.oracle)
}

// replaySeed returns the command that repeats one sequence.
func replaySeed(t testing.TB, number int64) string {
	t.Helper()
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("go test -run '%s' . -%s=%d", strings.Join(parts, "/"), seed.Flag, number)
}
