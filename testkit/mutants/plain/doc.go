// Package plain is the yardstick of the mutation benchmark: the tests that a good engineer writes for these operators
// today. They create, change and delete each custom resource, delete a child by hand, and look at the children and at
// the status. What they find of package mutants is in testdata/detected.txt.
//
// It holds tests alone, and deliberately uses nothing of testkit but its control plane and its way of waiting. It is
// not for improving: a test that is added because of a mutant would be no measure of those that exist.
package plain
