// Package sandbox runs operators as a developer wants to see them: on a control plane with simulated nodes, installed
// from the manifests they ship, as real processes with the rights of their own ServiceAccounts, and started again when
// they end. Or somebody else installs them, in whatever way: then their pods run as processes.
//
// It is what `testkit up` is made of. Tests of an operator have package testkit; [RunPods] is for tests of how it is
// installed. It is not for production: operators run on this machine and not in the cluster, and nothing survives Stop.
package sandbox
