// Package conformance checks the manifests and the behavior that every operator has in common.
//
// [Check] renders the overlays of an operator with kubectl, installs each on a control plane of its own, and runs two
// replicas of the operator with the permissions of its ServiceAccount. It returns one error with all violations; each
// names the rule, the place and the fix. [Rules] lists the rules.
//
//	func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }
//
//	func TestConformance(t *testing.T) {
//		if err := conformance.Check(t.Context(), operator); err != nil {
//			t.Error(err)
//		}
//	}
//
// The operator may be written with any library, because Check needs a controller-runtime manager only. Everything that
// depends on the kind, such as the content of children, belongs in the operator's own tests.
package conformance
