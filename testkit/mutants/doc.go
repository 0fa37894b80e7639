// Package mutants is a benchmark of whatever claims to find bugs in operators: eight small operators that are
// correct, one for each class of bugs that operators have, and three mutants of each, which differ from their twin by
// a few lines and have exactly one known bug.
//
// A tool is judged by how many of the 24 mutants it finds and by what it says of the eight twins, of which there is
// nothing to be said: a twin withstands a crash at any moment, late or lost news, refused and lost requests,
// interference with what it made, deletion at any time, a restart and a second replica.
//
// The operators are written as operators are, with controller-runtime alone and a cached client. One file holds one
// class, twin and mutants side by side: look for r.bug. Each works in a single namespace, of which a [Mutant] says
// how to start it and what a user does there; what is seen of it then, and under which faults, is up to the tool.
//
// It is not an example of how to write operators. Nothing in it says more than the benchmark needs.
package mutants

//go:generate sh -c "$(GOWORK=off go -C ../../tools tool -n controller-gen) crd paths=./api/... output:crd:dir=config/crd"
