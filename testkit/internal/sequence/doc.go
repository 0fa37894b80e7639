// Package sequence generates sequences of custom resources to run an operator against, each object a small step from
// the one before. It also shrinks a failing sequence to a minimal one that still fails.
//
// A Generator takes its choices from a seed or from bytes. A seed gives the same sequence on every machine and prefers
// properties that no step has exercised yet. Bytes are for go test -fuzz: similar bytes give similar sequences. The
// validity of an object is decided by a validity.Validator. The generator continues from the last object that it
// accepted.
//
// No operator runs here. The results depend only on the answers of the validator and of the function passed to Shrink,
// and are as deterministic as these.
package sequence
