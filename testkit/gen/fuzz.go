package gen

import (
	"math/rand/v2"
	"testing"

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
// -fuzzminimizetime=1x, too: a sequence takes seconds, Go would spend its time on making bytes fewer, and what fails is
// shrunk here.
func Fuzz(f *testing.F, op testkit.Runnable, what Source, opts ...Option) {
	f.Helper()
	c := begin(f, op, what, opts)
	c.once = map[string]*shrunk{}
	number := seed.Given()
	if number == 0 {
		number = c.seed // the same each time, because several processes add it
	}
	for i := range c.sequences {
		f.Add(corpus(number, i))
	}
	f.Fuzz(func(t *testing.T, data []byte) { c.walk(t, c.byBytes(t, data), "") })
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
