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
func (c *campaign) bySeed(t testing.TB, number int64, i int) choices {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), uint64(i))) //nolint:gosec // choices are no secret
	return c.choose(t, func(o validity.Validator) (*sequence.Generator, error) {
		return sequence.New(c.schema, c.sample, o, random.Uint64())
	}, func() bool { return random.IntN(3) == 0 }) //nolint:mnd // one in three
}

// byBytes makes choices by bytes.
func (c *campaign) byBytes(t testing.TB, data []byte) choices {
	t.Helper()
	return c.choose(t, func(o validity.Validator) (*sequence.Generator, error) {
		return sequence.FromBytes(c.schema, c.sample, o, data)
	}, func() bool { return false })
}

func (c *campaign) choose(
	t testing.TB, by func(validity.Validator) (*sequence.Generator, error), undo func() bool,
) choices {
	t.Helper()
	ch := choices{where: &validity.DryRun{Client: c.k.Client}, undo: undo}
	ch.oracle = &validity.Count{Oracle: ch.where}
	var err error
	if ch.generator, err = by(ch.oracle); err != nil {
		t.Fatal(err)
	}
	return ch
}

// walk makes one sequence and reports what the operator does wrong.
func (c *campaign) walk(t testing.TB, ch choices, replay string) {
	t.Helper()
	f, how, err := c.explore(t, ch)
	switch {
	case err != nil:
		t.Fatal(err)
	case f != nil:
		t.Fatal("\n" + f.text(replay, how))
	}
}

// explore makes one sequence and returns what the operator does wrong, and how that was shrunk.
func (c *campaign) explore(t testing.TB, ch choices) (f *finding, how string, _ error) {
	t.Helper()
	w := &walker{c: c, choices: ch}
	f, err := w.walk(t.Context())
	t.Log("\n" + w.summary())
	switch {
	case err != nil:
		return nil, "", err
	case f != nil:
		f, how = c.shrink(t.Context(), f)
		return f, how, nil
	case w.good == 0 && w.stuck > 0:
		return nil, "", errors.New("the operator could carry out none of the changes, so that nothing was explored")
	default:
		return nil, "", nil
	}
}

// walker makes one sequence.
type walker struct {
	choices

	c     *campaign
	until time.Time // for how long steps are made; zero for as many as there should be
	trial *trial
	here  *unstructured.Unstructured // the last manifest that the operator could carry out

	made, good, stuck int
	steps             []string // what was done, and what came of it
}

// walk returns what is wrong first.
func (w *walker) walk(ctx context.Context) (f *finding, err error) {
	w.trial, err = w.c.open(ctx, "sequence")
	defer func() {
		entries := w.trial.session.Close()
		if f != nil && f.sequence == nil {
			f.sequence, f.timeline = w.trial.applied, entries
		}
	}()
	if err != nil {
		return nil, err
	}
	w.where.Namespace = w.trial.session.K().Namespace
	for w.made < w.c.steps && (w.until.IsZero() || time.Now().Before(w.until)) {
		step, err := w.generator.Next(ctx)
		var none *sequence.StuckError
		switch {
		case errors.Is(err, sequence.ErrExhausted), errors.As(err, &none) && w.made > 1:
			return w.finish(ctx)
		case err != nil:
			return nil, err
		}
		if f, err := w.step(ctx, step); f != nil || err != nil {
			return f, err
		}
	}
	return w.finish(ctx)
}

// step makes one step and, if the operator cannot follow or chance has it, undoes it.
func (w *walker) step(ctx context.Context, step sequence.Step) (*finding, error) {
	r, err := w.advance(ctx, step.Object, step.String())
	switch {
	case err != nil || r.wrong != nil:
		return r.wrong, err
	case r.invalid != "":
		w.generator.TakeBack()
		return nil, nil //nolint:nilnil // nothing is wrong
	case r.stuck != "":
		w.stuck++
		w.generator.TakeBack()
		return w.back(ctx)
	case w.here == nil:
		w.here = step.Object
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	w.good++
	if w.made < w.c.steps && w.undo() {
		w.generator.TakeBack()
		return w.back(ctx)
	}
	w.here = step.Object
	return nil, nil //nolint:nilnil // nothing is wrong
}

// back returns to where the sequence was before.
func (w *walker) back(ctx context.Context) (*finding, error) {
	if w.here == nil || equal(w.here, w.trial.applied[len(w.trial.applied)-1]) {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	r, err := w.advance(ctx, w.here, "back to where it was good")
	if err == nil && r.wrong == nil && r.invalid != "" {
		w.here = w.trial.applied[len(w.trial.applied)-1] // there is no way back
	}
	return r.wrong, err
}

// finish goes back to where the sequence began, and deletes the custom resource.
func (w *walker) finish(ctx context.Context) (*finding, error) {
	w.here = w.c.sample
	if f, err := w.back(ctx); f != nil || err != nil {
		return f, err
	}
	return w.trial.end()
}

// advance makes a step, and notes what came of it.
func (w *walker) advance(ctx context.Context, m *unstructured.Unstructured, what string) (result, error) {
	w.made++
	began := time.Now()
	r, err := w.trial.advance(ctx, m, w.c.thorough())
	line := fmt.Sprintf("%2d %5.2f s  %s", w.made, time.Since(began).Seconds(), what)
	switch {
	case err != nil:
	case r.invalid != "":
		line += "\n   refused by the API server: " + r.invalid
	case r.stuck != "":
		line += "\n   not carried out, and undone: " + r.stuck
	case r.wrong != nil:
		line += "\n   " + r.wrong.oracle + ": " + r.wrong.message
	}
	w.steps = append(w.steps, line)
	return r, err
}

// summary says what was explored.
func (w *walker) summary() string {
	cover := w.generator.Coverage()
	return fmt.Sprintf("%s\n%d of %d properties were changed\n%v",
		strings.Join(w.steps, "\n"), cover.Exercised(), len(cover.Properties), w.oracle)
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
