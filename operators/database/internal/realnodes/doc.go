// Package realnodes has tests of Databases whose pods are containers: a kubelet starts and stops their servers, volumes have
// file systems of their own, and nodes can be lost. See docs/real-nodes.md; `make test/nodes` runs them.
package realnodes
