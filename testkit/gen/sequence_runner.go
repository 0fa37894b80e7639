package gen

import (
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

// choices are what a sequence is made by.
type choices struct {
	generator *sequence.Generator
	oracle    *validity.Count
	where     *validity.DryRun // the namespace of the sequence, once there is one
	undo      func() bool      // whether to go back
}

// bySeed makes choices by a seed, others for each sequence.
func (ex *exploration) bySeed(t testing.TB, number int64, i int) choices {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), uint64(i))) //nolint:gosec // choices are no secret
	return ex.choose(t, func(o validity.Validator) (*sequence.Generator, error) {
		return sequence.New(ex.schema, ex.sample, o, random.Uint64())
	}, func() bool { return random.IntN(3) == 0 }) //nolint:mnd // one in three
}

// byBytes makes choices by bytes.
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
	ch := choices{where: &validity.DryRun{Client: ex.k.Client}, undo: undo}
	ch.oracle = &validity.Count{Oracle: ch.where}
	var err error
	if ch.generator, err = by(ch.oracle); err != nil {
		t.Fatal(err)
	}
	return ch
}

// runSequence makes one sequence and reports what the operator does wrong.
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

// explore makes one sequence and returns what the operator does wrong, and how that was shrunk.
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

// sequenceRunner makes one sequence.
type sequenceRunner struct {
	choices

	c        *exploration
	until    time.Time // for how long steps are made; zero for as many as there should be
	session  *session
	lastGood *unstructured.Unstructured // the last manifest that the operator could carry out

	stepsMade, good, stuck int
	steps                  []string // what was done, and what came of it
}

// runSequence returns what is wrong first.
func (sr *sequenceRunner) run(ctx context.Context) (f *finding, err error) {
	sr.session, err = sr.c.open(ctx, "sequence")
	defer func() {
		entries := sr.session.inner.Close()
		if f != nil && f.sequence == nil {
			f.sequence, f.timeline = sr.session.applied, entries
		}
	}()
	if err != nil {
		return nil, err
	}
	sr.where.Namespace = sr.session.inner.K().Namespace
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

// step makes one step and, if the operator cannot follow or chance has it, undoes it.
func (sr *sequenceRunner) step(ctx context.Context, step sequence.Step) (*finding, error) {
	r, err := sr.advance(ctx, step.Object, step.String())
	switch {
	case err != nil || r.wrong != nil:
		return r.wrong, err
	case r.invalid != "":
		sr.generator.TakeBack()
		return nil, nil //nolint:nilnil // nothing is wrong
	case r.stuck != "":
		sr.stuck++
		sr.generator.TakeBack()
		return sr.goBack(ctx)
	case sr.lastGood == nil:
		sr.lastGood = step.Object
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	sr.good++
	if sr.stepsMade < sr.c.steps && sr.undo() {
		sr.generator.TakeBack()
		return sr.goBack(ctx)
	}
	sr.lastGood = step.Object
	return nil, nil //nolint:nilnil // nothing is wrong
}

// goBack returns to where the sequence was before.
func (sr *sequenceRunner) goBack(ctx context.Context) (*finding, error) {
	if sr.lastGood == nil || equal(sr.lastGood, sr.session.applied[len(sr.session.applied)-1]) {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	r, err := sr.advance(ctx, sr.lastGood, "back to where it was good")
	if err == nil && r.wrong == nil && r.invalid != "" {
		sr.lastGood = sr.session.applied[len(sr.session.applied)-1] // there is no way back
	}
	return r.wrong, err
}

// finish goes back to where the sequence began, and deletes the custom resource.
func (sr *sequenceRunner) finish(ctx context.Context) (*finding, error) {
	sr.lastGood = sr.c.sample
	if f, err := sr.goBack(ctx); f != nil || err != nil {
		return f, err
	}
	return sr.session.end()
}

// advance makes a step, and notes what came of it.
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
	case r.wrong != nil:
		line += "\n   " + r.wrong.oracle + ": " + r.wrong.message
	}
	sr.steps = append(sr.steps, line)
	return r, err
}

// summary says what was explored.
func (sr *sequenceRunner) summary() string {
	cover := sr.generator.Coverage()
	return fmt.Sprintf("%s\n%d of %d properties were changed\n%v",
		strings.Join(sr.steps, "\n"), cover.Exercised(), len(cover.Properties), sr.oracle)
}

// replaySeed is the command that runs one sequence again.
func replaySeed(t testing.TB, number int64) string {
	t.Helper()
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("go test -run '%s' . -%s=%d", strings.Join(parts, "/"), seed.Flag, number)
}
