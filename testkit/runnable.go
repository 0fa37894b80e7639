package testkit

import "sigs.k8s.io/controller-runtime/pkg/manager"

// Runnable is an operator that registers itself with a manager for some namespaces. Operators of package sdk implement it;
// this package does not import sdk, so that its users do not depend on it.
type Runnable interface {
	// SetupInNamespaces registers the operator's controllers with mgr, for objects in these namespaces, or in all if there
	// are none.
	SetupInNamespaces(mgr manager.Manager, namespaces ...string) error
}

// Run is Start for a Runnable. The operator watches the test's namespace, or all with ClusterWide.
func (k *K) Run(op Runnable, opts ...StartOption) *Instance {
	k.t.Helper()
	var o startOptions
	for _, opt := range opts {
		opt(&o)
	}
	var namespaces []string
	if !o.clusterWide {
		namespaces = []string{k.Namespace}
	}
	return k.Start(func(mgr manager.Manager) error { return op.SetupInNamespaces(mgr, namespaces...) }, opts...)
}
