// Package cluster starts and stops one Kubernetes control plane on the loopback interface: etcd and kube-apiserver, and
// for the Workloads tier kube-controller-manager, kube-scheduler and simulated nodes.
//
// Operators have to be tested against the real API server, and the usual tools for that leave processes behind when a
// test is killed. A control plane is ready in about three seconds. Its data is in one folder, which Stop removes.
// Garbage collection and namespace deletion run in this process (see package gc), and take milliseconds instead of
// seconds.
//
// It is not for production: nothing is durable, and one token has all permissions. Tests share a control plane through
// package testkit rather than start one each.
package cluster
