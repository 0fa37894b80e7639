package testkit

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
)

// Runnable is an operator that registers itself with a manager, as operators of package sdk do.
type Runnable interface {
	SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error
}

// Run is Start for an operator of package sdk. The operator watches the test's namespace, or all with ClusterWide.
func (k *K) Run(op Runnable, opts ...StartOption) *Instance {
	k.t.Helper()
	var o startOptions
	for _, opt := range opts {
		opt(&o)
	}
	var where []sdk.SetupOption
	if !o.clusterWide {
		where = append(where, sdk.InNamespaces(k.Namespace))
	}
	return k.Start(func(mgr manager.Manager) error { return op.SetupWithManager(mgr, where...) }, opts...)
}
