// Package sandbox runs operators for a developer: on a control plane with simulated nodes, installed from the manifests
// they ship. They run as real processes with the permissions of their own ServiceAccounts, and are restarted when they
// end. Alternatively, the caller installs them by any means, and their pods run as processes.
//
// It implements `testkit up`. Tests of an operator use package testkit; [RunPods] is for tests of its installation. It
// is not for production: operators run on this machine and not in the cluster, and Stop discards everything.
package sandbox
