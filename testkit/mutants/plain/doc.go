// Package plain is the yardstick of the mutation benchmark: the tests that a good engineer writes for these operators
// today. They create, change and delete each custom resource, delete a child by hand, and look at the children and at
// the status. What they find of package mutants is in testdata/detected.txt.
//
// It deliberately uses nothing of testkit but its control plane and its way of waiting. It is
// not for improving: a test that is added because of a mutant would be no measure of those that exist.
package plain

import (
	_ "embed" // for what was detected
	"strings"
)

//go:embed testdata/detected.txt
var detected string

// Detected has a line for each mutant that the tests detect: its name, and the test that fails. It is what a test of this
// package measured.
func Detected() []string { return strings.Split(strings.TrimSpace(detected), "\n") }
