// Package janitor collects garbage and empties deleted namespaces on a control plane that has no
// kube-controller-manager, or one whose own controllers for this are switched off.
//
// It exists because Kubernetes's namespace controller waits at least five seconds per namespace and its garbage
// collector takes up to half a minute to notice a new custom resource: fine for a cluster, unbearable in tests. The
// janitor keeps their semantics: background, foreground and orphan deletion, blockOwnerDeletion, owners in another
// namespace count as absent, nothing is deleted without checking UID and resourceVersion. It has the names and the rights
// of Kubernetes's own controllers, so that policies which make exceptions for those make them for it.
//
// What it does not know: resources of aggregated API servers, and events as owners or dependents.
package gc
