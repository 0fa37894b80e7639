// Package mutants is a benchmark of tools that find bugs in operators. It has eighteen small correct operators, the twins,
// one for each class of operator bugs. Each has three or four mutants that differ by a few lines and have exactly one bug,
// which is known.
//
// The measure of a tool is the number of the mutants that it finds, and its findings about the twins, which are false
// alarms. A twin withstands a crash at any moment, late or lost watch events, rejected and lost requests, drift of its
// children, deletion at any time, a restart and a second replica. A mutant that explorations miss says why, see
// [Mutant.Undetected].
//
// The operators are written in the usual way, with controller-runtime alone and a cached client. One file holds one
// class, twin and mutants side by side: search for r.bug. All but those of class across-namespaces work in a single
// namespace. A [Mutant] describes its start and the steps of a user. The tool chooses the observations and the faults.
//
// The operators are not examples of good style. They contain only what the benchmark needs.
package mutants

//go:generate sh -c "$(GOWORK=off go -C ../../tools tool -n controller-gen) crd paths=./api/... output:crd:dir=config/crd"
