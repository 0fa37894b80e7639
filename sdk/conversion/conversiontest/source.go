package conversiontest

import (
	"encoding/binary"
	"math/rand/v2"
)

// bytesSource is a source of randomness with an end. It is a fixed sequence then.
type bytesSource struct {
	input []byte
	rest  rand.PCG
}

// Uint64 implements [rand.Source].
func (b *bytesSource) Uint64() uint64 {
	if len(b.input) == 0 {
		return b.rest.Uint64()
	}
	var chunk [8]byte
	n := copy(chunk[:], b.input)
	b.input = b.input[n:]
	return binary.LittleEndian.Uint64(chunk[:])
}

func seedInput(seed uint64, i int) []byte {
	source := rand.NewPCG(seed, uint64(i)) //nolint:gosec // an index is not negative
	var input []byte
	for range 100 {
		input = binary.LittleEndian.AppendUint64(input, source.Uint64())
	}
	return input
}
