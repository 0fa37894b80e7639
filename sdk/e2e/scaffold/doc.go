// Package scaffold tests the modules that `homeostat new` writes: outside of this repository and in it, with short, long,
// irregular and reserved names. A module is equal to the output of controller-gen, compiles, and passes its own tests. The
// command itself is tested beside its code, and `make lint/scaffold` lints its output.
package scaffold
