// Package sandbox runs operators as a developer wants to see them: on a control plane with simulated nodes, installed
// from the manifests they ship, as real processes with the rights of their own ServiceAccounts, and started again when
// they end.
//
// It is what `testkit up` is made of. It is not for tests, which have package testkit, nor for production: operators
// run on this machine and not in the cluster, and nothing survives Stop.
package sandbox
