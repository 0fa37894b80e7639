// Package clusterscoped tests explorations of operators that watch all namespaces, and of cluster-scoped kinds. These
// operators react to every test of a control plane, so the package has one of its own.
package clusterscoped
