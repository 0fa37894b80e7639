package gen_test

import (
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/chaos"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// The oracles are checked after each step. One of them needs random sequences; the others are those of package chaos.
func ExampleOracles() {
	for _, oracle := range gen.Oracles() {
		if slices.Contains(chaos.Oracles(), oracle) {
			fmt.Println(oracle)
		} else {
			fmt.Println(oracle, "(only here)")
		}
	}
	// Output:
	// fresh
	// recovery (only here)
	// writes-at-rest
	// residue
	// forbidden
	// refused
	// status
	// spec-written
	// exit
	// never
	// panic
	// outside
	// foreign
}
