// Package plain is the baseline of the mutation benchmark: the tests that a good engineer writes for these operators
// today. They create, change and delete each custom resource, delete a child by hand, and check the children and the
// status. Their results for package mutants are in testdata/detected.txt.
//
// The tests deliberately use nothing of testkit but its control plane and its polling. They are not to be improved: a
// test that is added because of a mutant would not measure existing tests.
package plain

import (
	_ "embed" // for testdata/detected.txt
	"strings"
)

//go:embed testdata/detected.txt
var detected string

// Detected returns a line for each mutant that the tests detect: its name, and the failing test. A test of this package
// measures it.
func Detected() []string { return strings.Split(strings.TrimSpace(detected), "\n") }
