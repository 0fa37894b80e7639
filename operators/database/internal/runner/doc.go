// Package runner executes the pods of a test as real processes on this machine. A test proves with it that the operator's
// objects make a working database, and not only that the API server accepts them.
//
// Everything but the containers is real: Kubernetes's own controllers handle StatefulSets, Jobs and CronJobs, the scheduler
// selects nodes, and Services have the endpoints of the API server. The nodes are simulated by the runner. It replaces
// kubelet and kube-proxy, on Linux, as root:
//
//   - A container has its own PID namespace, file system and host name. The machine's file system replaces the image, below
//     a layer that is empty at each start; parts that images do not have are hidden (see images.go). There are no image
//     entrypoints: each container needs a command.
//   - A pod has its own network namespace and an address that other pods reach. Names of Services and of their pods resolve
//     as in a cluster, by /etc/hosts. A connection to a cluster IP is forwarded to a random ready endpoint.
//   - Volumes of claims live as long as the claim; others as long as the pod. ConfigMaps and Secrets are read at each start
//     of a container. Owner, group and modes are those of a kubelet.
//   - Users, groups, capabilities, a read-only root, environment, init containers, exec probes and hooks, termination
//     messages, restarts and grace periods are supported.
//
// Probes run ten times as often as specified, and the backoff of restarts is shorter than that of a kubelet. Resources,
// sizes of volumes, network policies and tokens are ignored. A pod with any other feature, such as a sidecar or an HTTP
// probe, fails the test.
//
// The runner leaves no trace: files are in memory, in a mount namespace of the test's process. The network and all processes
// end with the process as well.
package runner
