// Package assets finds the programs of a Kubernetes control plane, and builds them when nobody else has them.
//
// It exists because an operator can only be tested against a real API server, and because the usual way to get one, a
// download, does not work behind a company's firewall, for a release that came out yesterday, or once the bucket is
// closed. Go's module proxy is what every Go developer can reach, so that is where the programs come from in the end.
//
// It looks into four sources, in this order, and passes over one that lacks a program that is needed:
//
//   - the folder that KUBEBUILDER_ASSETS names, as controller-runtime's envtest does;
//   - the user's cache, which holds what the next two made;
//   - a download of what is published for envtest, which is enough for an API server without workloads;
//   - a build from source with the caller's Go, which takes minutes once and can be interrupted at any time.
//
// TESTKIT_ASSETS restricts and reorders them: "cache,build" never downloads.
//
// It does not start anything: see package cluster.
package assets
