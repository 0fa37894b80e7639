package gen

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
)

// Fuzz explores the operator with sequences chosen by go test -fuzz, which prefers those that reach new code of the
// operator:
//
//	func FuzzOperator(f *testing.F) {
//		gen.Fuzz(f, database.Operator, gen.From("config/crd/databases.yaml", "config/samples/database.yaml"))
//	}
//
// Without -fuzz it runs the number of sequences set by Sequences, and the inputs in testdata/fuzz. With -fuzz, add
// -fuzzminimizetime=1x: a sequence takes seconds, and Go would spend its time on shorter inputs. A failure prints the
// command that shrinks it.
func Fuzz(f *testing.F, op testkit.Runnable, what Source, opts ...Option) {
	f.Helper()
	c := mustPrepare(f, op, what, opts)
	number := seed.FlagValue()
	if number == 0 {
		number = c.seed // deterministic, because several processes add it
	}
	for i := range c.sequences {
		f.Add(corpus(number, i))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if worker := flag.Lookup("test.fuzzworker"); worker != nil && worker.Value.String() == "true" {
			c.runSequenceBriefly(t, data)
			return
		}
		c.runSequence(t, c.byBytes(t, data), "")
	})
}

// runSequenceBriefly runs a sequence for at most 8 s. Package testing kills a fuzzing process after 10 s and reports its
// input as a failure. A sequence that is cut off has no finding.
func (ex *exploration) runSequenceBriefly(t *testing.T, data []byte) {
	t.Helper()
	const steps, all = 4 * time.Second, 8 * time.Second
	began := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(all))
	defer cancel()
	w := &sequenceRunner{c: ex, choices: ex.byBytes(t, data), until: began.Add(steps)}
	f, err := w.run(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.Fatal(err)
	case f != nil:
		t.Fatal("\n" + f.text("", "to shrink it, run the command below"))
	}
}

// corpus returns one initial input.
func corpus(number int64, i int) []byte {
	const changes, each = 6, 4                                 // bytes
	random := rand.New(rand.NewPCG(uint64(number), uint64(i))) //nolint:gosec // choices are no secret
	data := make([]byte, changes*each)
	for j := range data {
		data[j] = byte(random.UintN(256)) //nolint:gosec // any byte
	}
	return data
}
