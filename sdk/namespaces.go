package sdk

import "sigs.k8s.io/controller-runtime/pkg/manager"

// SetupInNamespaces is SetupWithManager with [InNamespaces]. Its signature has no type of this package, so that test kits
// can run the operator without depending on sdk.
func (op *Operator[T]) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return op.SetupWithManager(mgr, InNamespaces(namespaces...))
}
