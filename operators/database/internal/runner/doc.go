// Package runner executes the pods of a test as real processes on this machine, so that a test shows that what the operator
// makes of a Database is a database, and not only that it looks like one to the API server.
//
// Everything but the containers is what it is in a cluster: StatefulSets, Jobs and CronJobs are those of Kubernetes's own
// controllers, the scheduler finds a node, and Services have the endpoints that the API server knows. The nodes are the
// runner's. It does what a kubelet and kube-proxy do, on Linux, as root:
//
//   - A container has namespaces of its own: process 1, file system, host name. The machine's file system takes the place of
//     the image, under a layer that is empty whenever the container starts; what images do not have of it is hidden (see
//     images.go). There are no image entrypoints: each container needs a command.
//   - A pod has a network of its own, with an address that other pods reach. Names of Services and of their pods resolve as
//     they do in a cluster, by /etc/hosts. A Service's cluster IP leads to one of its ready endpoints, chosen anew for each
//     connection.
//   - Volumes of claims live as long as the claim; others as long as the pod. ConfigMaps and Secrets are read whenever a
//     container starts. Owner, group and modes are those that a kubelet gives them.
//   - Users, groups, capabilities, a read-only root, environment, init containers, probes and hooks by commands, termination
//     messages, restarts and grace periods are honoured.
//
// Probes are ten times as frequent as they say, and the pauses between restarts are shorter than a kubelet's. Resources,
// sizes of volumes, network policies and tokens are ignored. A pod that asks for more than this, such as a sidecar or a
// probe by HTTP, fails the test.
//
// Nothing of it is visible outside: files are in memory, in a mount namespace that goes with the process of the test, and
// so do the network and all processes, however the test ends.
package runner
