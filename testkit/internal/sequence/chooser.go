package sequence

import (
	"math/bits"
	"math/rand/v2"
)

// A chooser makes the random choices of a generator.
type chooser interface {
	// begin starts a change. It returns false if no choices are left.
	begin() bool
	// restart reports whether to return to the sample instead of making a change.
	restart() bool
	// property picks the index of a property, none with a weight of 0. At least one weight is positive.
	property(weights []int) int
	// mutation picks the index of one of a property's changes. All weights are positive.
	mutation(weights []int) int
	// more reports whether the step has another change.
	more() bool
}

// randomChooser chooses by a seed.
type randomChooser struct{ source *rand.PCG }

// stream separates the numbers from those of other users of the same seed.
const stream = 0x686f6d656f737461

func newRandom(seed uint64) *randomChooser { return &randomChooser{source: rand.NewPCG(seed, stream)} }

// below returns a number from 0 to n-1. Unlike the methods of rand.Rand it does not depend on the size of an int.
func (r *randomChooser) below(n int) int {
	high, _ := bits.Mul64(r.source.Uint64(), uint64(max(n, 1)))
	return int(high) //nolint:gosec // it is below n
}

func (r *randomChooser) begin() bool { return true }

const (
	// One step in restarts returns to the sample, so that objects do not grow without bound.
	restarts = 24
	// One change in another is followed by a further change in the same step.
	another = 5
)

func (r *randomChooser) restart() bool { return r.below(restarts) == 0 }

func (r *randomChooser) more() bool { return r.below(another) == 0 }

func (r *randomChooser) property(weights []int) int { return r.weighted(weights) }

func (r *randomChooser) mutation(weights []int) int { return r.weighted(weights) }

func (r *randomChooser) weighted(weights []int) int {
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

// chunk is the number of bytes that choose one change: two for the property, one for the change, one for the next step.
const chunk = 4

// Ranges of the last byte of a chunk.
const (
	restartFrom = 0xF0 // and above: return to the sample
	moreBelow   = 0x30 // another change in the same step
)

// byteChooser chooses by bytes. Each change has a chunk of its own, so that a change of other chunks does not affect it.
type byteChooser struct {
	data  []byte
	bytes [chunk]byte
}

func (b *byteChooser) begin() bool {
	if len(b.data) == 0 {
		return false
	}
	b.bytes = [chunk]byte{}
	b.data = b.data[copy(b.bytes[:], b.data):]
	return true
}

func (b *byteChooser) restart() bool { return b.bytes[3] >= restartFrom }

func (b *byteChooser) more() bool { return b.bytes[3] < moreBelow && len(b.data) > 0 }

// property scales the first two bytes, so that near bytes give near properties of the schema. Weights other than 0 have
// no effect.
func (b *byteChooser) property(weights []int) int {
	first := (int(b.bytes[0])<<8 | int(b.bytes[1])) * len(weights) >> 16
	for i := range weights {
		if at := (first + i) % len(weights); weights[at] > 0 {
			return at
		}
	}
	return first
}

func (b *byteChooser) mutation(weights []int) int { return int(b.bytes[2]) * len(weights) >> 8 }
