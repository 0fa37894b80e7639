// Package testkit tests Kubernetes operators against a real API server, with the standard testing package.
//
// A package starts with one line, and its tests share a control plane with those of all other packages of the same
// `go test ./...`:
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
// Each test has a namespace of its own, garbage collection and namespace deletion work, and the operator runs as its
// own ServiceAccount with the Roles it ships. It works with any controller-runtime operator, whatever library it was
// written with.
//
// A test that fails shows one timeline: what the test did, what the operator asked of the API server, which fields and
// conditions changed, Events and the log; and the command that runs it again. At the end of each test the rules that hold
// for every operator are held against it: see [Oracle], and [Without] to break one on purpose. [K.Golden] compares what an
// operator made with a file, and [Env.NoUnusedRules] its roles with what it needed.
//
// What it does not do: containers never run. In the API tier pods are only stored; in the Workloads tier simulated
// nodes report them Running and Ready.
package testkit
