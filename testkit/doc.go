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
// What it does not do: containers never run. In the API tier pods are only stored; in the Workloads tier simulated
// nodes report them Running and Ready.
package testkit
