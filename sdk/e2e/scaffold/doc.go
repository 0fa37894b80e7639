// Package scaffold tests what `homeostat new` writes, as those get it who use it: outside of this repository and in it, with
// names that are short, long, irregular or taken. What controller-gen makes of it is what is there already, it compiles, and
// its own tests pass. The command itself is tested beside its code, and `make lint/scaffold` lints what it writes.
package scaffold
