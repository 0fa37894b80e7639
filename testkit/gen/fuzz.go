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

// Fuzz lets go test -fuzz choose what becomes of the custom resource, and so prefers what makes the operator do what it has
// not done before:
//
//	func FuzzOperator(f *testing.F) {
//		gen.Fuzz(f, database.Operator, gen.From("config/crd/databases.yaml", "config/samples/database.yaml"))
//	}
//
// Without -fuzz it runs as many sequences as Sequences says, and what is in testdata/fuzz. With it, give
// -fuzzminimizetime=1x, too: a sequence takes seconds, and Go would spend its time on making bytes fewer. What fails is
// shrunk by the command that is printed then.
func Fuzz(f *testing.F, op testkit.Runnable, what Source, opts ...Option) {
	f.Helper()
	c := mustPrepare(f, op, what, opts)
	number := seed.Given()
	if number == 0 {
		number = c.seed // the same each time, because several processes add it
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

// runSequenceBriefly makes one sequence, or as much of it as there is time for: package testing ends a fuzzing process, and takes
// its input for one that fails, when it takes more than 10 s. What that leaves undecided is no finding.
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

// corpus is one sequence to begin with.
func corpus(number int64, i int) []byte {
	const changes, each = 6, 4                                 // bytes
	random := rand.New(rand.NewPCG(uint64(number), uint64(i))) //nolint:gosec // choices are no secret
	data := make([]byte, changes*each)
	for j := range data {
		data[j] = byte(random.UintN(256)) //nolint:gosec,mnd // any byte
	}
	return data
}
