// Package gc collects garbage and empties deleted namespaces on a control plane that has no kube-controller-manager, or
// one without the controllers for this.
//
// The namespace controller of Kubernetes waits at least five seconds per namespace. Its garbage collector takes up to
// half a minute to notice a new custom resource. Both are too slow for tests. This package keeps their semantics:
// background, foreground and orphan deletion, blockOwnerDeletion, owners in another namespace count as absent, and
// deletions check UID and resourceVersion. It uses the names and permissions of the Kubernetes controllers, so that
// policies with exceptions for those apply to it.
//
// Not supported: resources of aggregated API servers, and Events as owners or dependents.
package gc
