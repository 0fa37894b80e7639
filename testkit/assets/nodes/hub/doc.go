// Package hub is the program of the network that all nodes of a cluster are in: PID 1 of namespaces of its own, and the
// parent of the nodes. It connects this network, which has no other connection, to the machine: pods reach the API server,
// and the API server reaches pods and kubelets. It serves DNS and images. The end of this process is the end of all nodes.
package hub
