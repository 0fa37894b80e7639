// Bench measures what an operator made with the SDK costs, beside what people would write instead, and beside what
// nobody can go below. It is what `make bench` runs:
//
//	go run ./sdk/bench [-n 300,1000,3000] [-rounds 1] [-o build/bench.json] [-svg build/bench.svg]
//
// The work is in package work: N objects are created at once, and each gets four children and a status. There are four
// contenders, each a program of its own:
//
//   - floor creates the children with POST and forgets them: nobody needs fewer requests;
//   - apply-floor does the same with server-side apply, which costs the API server more;
//   - kubebuilder is what a good engineer writes with controller-runtime alone: typed, cached, CreateOrUpdate;
//   - sdk uses package sdk.
//
// Each measurement has a control plane of its own (etcd and kube-apiserver, no controllers, no nodes) on the machine that
// it shares with the contender and the load. Requests are what the API server itself counted; times of processors and
// memory are the kernel's. Absolute figures mean little on another machine, so compare what one run printed.
package main
