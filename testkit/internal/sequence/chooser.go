package sequence

import (
	"math/bits"
	"math/rand/v2"
)

// A chooser makes the choices of a generator.
type chooser interface {
	// begin starts a change. It is false if no choices are left.
	begin() bool
	// restart says whether to go back to the sample instead of making a change.
	restart() bool
	// property picks one of the properties, none with a weight of 0. Not all weights are 0.
	property(weights []int) int
	// mutation picks one of a property's changes. All weights are positive.
	mutation(weights []int) int
	// more says whether the step has another change.
	more() bool
}

// random chooses by a seed.
type random struct{ source *rand.PCG }

// stream makes the numbers different from those of others who use the same seed.
const stream = 0x686f6d656f737461

func newRandom(seed uint64) *random { return &random{source: rand.NewPCG(seed, stream)} }

// below returns a number from 0 to n-1. Unlike the methods of rand.Rand it does not depend on the size of an int.
func (r *random) below(n int) int {
	high, _ := bits.Mul64(r.source.Uint64(), uint64(max(n, 1)))
	return int(high) //nolint:gosec // it is below n
}

func (r *random) begin() bool { return true }

const (
	// One step in restarts goes back to the sample, so that objects do not grow for ever.
	restarts = 24
	// One change in another is followed by a further one in the same step.
	another = 5
)

func (r *random) restart() bool { return r.below(restarts) == 0 }

func (r *random) more() bool { return r.below(another) == 0 }

func (r *random) property(weights []int) int { return r.weighted(weights) }

func (r *random) mutation(weights []int) int { return r.weighted(weights) }

func (r *random) weighted(weights []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	left := r.below(total)
	for i, w := range weights {
		if left -= w; left < 0 {
			return i
		}
	}
	return 0
}

// chunk is how many bytes choose one change: two for the property, one for what happens to it, one for what is next.
const chunk = 4

// What the last byte of a chunk means.
const (
	restartFrom = 0xF0 // and above: back to the sample
	moreBelow   = 0x30 // another change in the same step
)

// bytewise chooses by bytes. Each change has its own, so that other bytes elsewhere leave it as it is.
type bytewise struct {
	data  []byte
	bytes [chunk]byte
}

func (b *bytewise) begin() bool {
	if len(b.data) == 0 {
		return false
	}
	b.bytes = [chunk]byte{}
	b.data = b.data[copy(b.bytes[:], b.data):]
	return true
}

func (b *bytewise) restart() bool { return b.bytes[3] >= restartFrom }

func (b *bytewise) more() bool { return b.bytes[3] < moreBelow && len(b.data) > 0 }

// property scales the first two bytes, so that near bytes are near in the schema. It ignores how much is preferred.
func (b *bytewise) property(weights []int) int {
	first := (int(b.bytes[0])<<8 | int(b.bytes[1])) * len(weights) >> 16
	for i := range weights {
		if at := (first + i) % len(weights); weights[at] > 0 {
			return at
		}
	}
	return first
}

func (b *bytewise) mutation(weights []int) int { return int(b.bytes[2]) * len(weights) >> 8 }
