// Package kubelet simulates nodes and lets a test say how their pods fare: fail, crash, get evicted, never become
// Ready, or vanish together with their node.
//
// It exists because what an operator does when pods go wrong is most of what is worth testing, and no API server makes
// a pod go wrong by itself. The nodes are simulated by kwok with the stages in this package; they do what a kubelet
// does as far as the API can tell: statuses, conditions, restarts after another image, image pulls that fail, Jobs that
// complete, deletion that ends in removal. A test then writes into the status of pods what a kubelet would have
// written had the worst happened.
//
// Two names of images mean something: one that contains "does-not-exist" or "invalid.example" cannot be pulled.
//
// No container runs, unless somebody runs a process in its place (see ProcessGate). What matters only inside a container
// (probes, logs, exec, volumes, resources) is not simulated.
package kubelet
