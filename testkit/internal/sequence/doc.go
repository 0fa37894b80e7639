// Package sequence makes sequences of custom resources to run an operator against, each object a small step from the
// one before, and shrinks a sequence on which the operator fails to the least that still makes it fail.
//
// A Generator takes its choices from a number or from bytes. The number gives the same sequence on every machine and
// prefers what no step has exercised yet; the bytes are for go test -fuzz, where similar ones give similar sequences.
// Which objects are valid is not decided here: a validity.Oracle is asked, and the generator goes on from the last
// object that it accepted.
//
// Nothing here runs an operator. The answers of the oracle and of the function that Shrink is given are all it depends
// on, so it is as deterministic as they are.
package sequence
