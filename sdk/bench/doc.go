// Command bench measures the cost of an operator that uses the SDK. It compares it with an operator on controller-runtime
// alone, and with lower bounds. `make bench` runs it:
//
//	go run ./sdk/bench [-n 300,1000,3000] [-rounds 1] [-o build/bench.json] [-svg build/bench.svg]
//
// The workload is in package work: N objects are created at once, and each gets four children and a status. There are four
// candidates, each a program of its own:
//
//   - floor creates the children with POST and never reads them: the minimum of requests;
//   - apply-floor does the same with server-side apply, which is more expensive for the API server;
//   - kubebuilder is a careful implementation with controller-runtime alone: typed, cached, CreateOrUpdate;
//   - sdk uses package sdk.
//
// Each measurement has a control plane of its own (etcd and kube-apiserver, no controllers, no nodes), on the same machine
// as the candidate and the load. Request counts come from the metrics of the API server; CPU time and memory come from the
// kernel. Absolute figures depend on the machine, so that only figures of one run are comparable.
package main
