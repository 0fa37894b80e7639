// Package outside tests that sdk and testkit can be used from other repositories: a module without this repository's go.work
// builds, vets and tests an operator. The operator is in testdata/gadget and is complete: copy it to start your own.
package outside
