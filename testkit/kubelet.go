package testkit

import (
	"context"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// NamespacedKubelet scripts the test's pods on the simulated nodes of Env.Workloads. Package kubelet documents each
// call and the modes.
type NamespacedKubelet struct {
	k *K
}

// Fail puts the pods in the test's namespace that match the label selector into the mode.
func (s *NamespacedKubelet) Fail(selector string, mode kubelet.Mode) {
	s.k.t.Helper()
	s.k.obs.record("has the pods with %s fare as %v", selector, mode)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error {
		return sim.Fail(ctx, s.k.Namespace, selector, mode)
	})
}

// Heal reverts Fail and DelayReadiness for the pods that match the selector.
func (s *NamespacedKubelet) Heal(selector string) {
	s.k.t.Helper()
	s.k.obs.record("heals the pods with %s", selector)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.Heal(ctx, s.k.Namespace, selector) })
}

// DelayReadiness keeps matching pods of the test's namespace, including future ones, from being Ready until release is
// called.
func (s *NamespacedKubelet) DelayReadiness(selector string) (release func()) {
	s.k.t.Helper()
	s.k.obs.record("keeps the pods with %s from being ready", selector)
	var let func(context.Context) error
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) (err error) {
		let, err = sim.DelayReadiness(ctx, s.k.Namespace, selector)
		return err
	})
	return func() {
		s.k.t.Helper()
		s.k.obs.record("lets the pods with %s be ready", selector)
		s.do(func(ctx context.Context, _ *kubelet.Kubelet) error { return let(ctx) })
	}
}

// DisconnectNode removes a node. It affects all tests of a shared control plane, so it needs Private.
func (s *NamespacedKubelet) DisconnectNode(node string) {
	s.k.t.Helper()
	s.needPrivate()
	s.k.obs.record("has node %s vanish", node)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.DisconnectNode(ctx, node) })
}

// ReconnectNode reverts DisconnectNode.
func (s *NamespacedKubelet) ReconnectNode(node string) {
	s.k.t.Helper()
	s.needPrivate()
	s.k.obs.record("brings node %s back", node)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.ReconnectNode(ctx, node) })
}

func (s *NamespacedKubelet) needPrivate() {
	s.k.t.Helper()
	if !s.k.ownsNodes() {
		s.k.t.Fatal("changing a node: other tests use it too; give this test testkit.New(t, testkit.Private())")
	}
}

func (s *NamespacedKubelet) do(call func(context.Context, *kubelet.Kubelet) error) {
	s.k.t.Helper()
	sim, err := s.k.simulated()
	if err == nil {
		err = call(s.k.Context(), sim)
	}
	if err != nil {
		s.k.t.Fatalf("%v", err)
	}
}
