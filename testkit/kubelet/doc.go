// Package kubelet simulates nodes and scripts their pods: they fail, crash, get evicted, never become Ready, or vanish
// together with their node.
//
// Reactions to failing pods are a large part of an operator, and an API server alone never makes a pod fail. The nodes
// are simulated by kwok with the stages in this package. In the API they behave like a kubelet: statuses, conditions,
// restarts after an image change, failing image pulls, completion of Jobs, graceful deletion. A test then writes the
// status that a kubelet would write after a failure.
//
// Two image names are special: an image that contains "does-not-exist" or "invalid.example" cannot be pulled.
//
// No container runs, unless a caller runs a process in its place (see ProcessGate). Features inside a container
// (probes, logs, exec, volumes, resources) are not simulated.
package kubelet
