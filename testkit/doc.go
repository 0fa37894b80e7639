// Package testkit tests Kubernetes operators against a real API server, with the standard testing package.
//
// A package starts with one line. Its tests share a control plane with all other packages of the same `go test ./...`:
//
//	func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{CRDs: "../config/crd", RBAC: "../config/rbac"}) }
//
//	func TestDatabase(t *testing.T) {
//		t.Parallel()
//		k := testkit.New(t)
//		k.Start(database.Operator.SetupWithManager)
//		db := k.Apply(sampleDB(3))
//		k.Eventually(db, testkit.Ready())
//	}
//
// Each test has a namespace of its own. Garbage collection and namespace deletion work, and the operator runs as its
// own ServiceAccount with the roles it ships. testkit works with any controller-runtime operator, with or without a
// framework.
//
// A failed test prints one timeline: the actions of the test, the requests of the operator, changed fields and
// conditions, Events and the log. The command that repeats the test follows it. At the end of each test testkit checks
// the rules that hold for every operator: see [Oracle], and [WithoutOracles] to break one on purpose. [K.Golden] compares
// the operator's objects with a file. [Env.NoUnusedRules] compares its roles with the permissions that it used.
//
// Limits: without [Env.Real] containers never run. In the API tier pods are only stored; in the Workloads tier simulated
// nodes report them Running and Ready.
package testkit
