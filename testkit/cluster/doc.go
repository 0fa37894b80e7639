// Package cluster starts and stops one Kubernetes control plane on the loopback interface: etcd and kube-apiserver,
// and for the Workloads tier kube-controller-manager, kube-scheduler and simulated nodes.
//
// It exists because an operator can only be tested honestly against the real API server, and because what is usually
// used for that leaves processes behind when a test is killed. A control plane is ready in about three seconds; its
// data lives in one folder that goes when it stops. Garbage collection and namespace deletion are done in this
// process (see package janitor), in milliseconds rather than seconds.
//
// It is not for production: nothing is durable, one token is allowed to do everything. Tests share a control plane
// through package testkit rather than start one each.
package cluster
