// Package assets finds the programs of a Kubernetes control plane, and builds them if no other source has them.
//
// Operators can only be tested against a real API server. The usual way to get one is a download. That fails behind a
// company's firewall, for a release published yesterday, or after the bucket is closed. Every Go developer can reach
// Go's module proxy, so the programs come from there in the last resort.
//
// Find searches four sources, in this order, and skips a source that lacks a needed program:
//
//   - the folder in KUBEBUILDER_ASSETS, as controller-runtime's envtest does;
//   - the user's cache, filled by the next two;
//   - a download of the envtest archives, which is enough for an API server without workloads;
//   - a build from source with the caller's Go, which takes minutes once and can be interrupted at any time.
//
// TESTKIT_ASSETS restricts and reorders them: "cache,build" never downloads.
//
// The package does not start anything: see package cluster.
package assets
