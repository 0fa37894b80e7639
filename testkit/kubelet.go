package testkit

import (
	"context"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// NamespacedKubelet decides how the test's pods fare on the simulated nodes of Env.Workloads. See package kubelet for what each
// call means, and for the modes.
type NamespacedKubelet struct {
	k *K
}

// Fail makes the pods of the test's namespace that match the label selector fare as mode says.
func (s *NamespacedKubelet) Fail(selector string, mode kubelet.Mode) {
	s.k.t.Helper()
	s.k.seen.say("has the pods with %s fare as %v", selector, mode)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error {
		return sim.Fail(ctx, s.k.Namespace, selector, mode)
	})
}

// Heal ends what Fail and HoldReady did to these pods.
func (s *NamespacedKubelet) Heal(selector string) {
	s.k.t.Helper()
	s.k.seen.say("heals the pods with %s", selector)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.Heal(ctx, s.k.Namespace, selector) })
}

// HoldReady keeps matching pods of the test's namespace, future ones too, from being Ready until release is called.
func (s *NamespacedKubelet) HoldReady(selector string) (release func()) {
	s.k.t.Helper()
	s.k.seen.say("keeps the pods with %s from being ready", selector)
	var let func(context.Context) error
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) (err error) {
		let, err = sim.HoldReady(ctx, s.k.Namespace, selector)
		return err
	})
	return func() {
		s.k.t.Helper()
		s.k.seen.say("lets the pods with %s be ready", selector)
		s.do(func(ctx context.Context, _ *kubelet.Kubelet) error { return let(ctx) })
	}
}

// NodeLost makes a node vanish. All tests of a shared control plane would feel it, so it needs Private.
func (s *NamespacedKubelet) NodeLost(node string) {
	s.k.t.Helper()
	s.needPrivate()
	s.k.seen.say("has node %s vanish", node)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.NodeLost(ctx, node) })
}

// NodeBack ends what NodeLost began.
func (s *NamespacedKubelet) NodeBack(node string) {
	s.k.t.Helper()
	s.needPrivate()
	s.k.seen.say("brings node %s back", node)
	s.do(func(ctx context.Context, sim *kubelet.Kubelet) error { return sim.NodeBack(ctx, node) })
}

func (s *NamespacedKubelet) needPrivate() {
	s.k.t.Helper()
	if !s.k.conn.private {
		s.k.t.Fatal("changing a node: other tests use it too; give this test testkit.New(t, testkit.Private())")
	}
}

func (s *NamespacedKubelet) do(act func(context.Context, *kubelet.Kubelet) error) {
	s.k.t.Helper()
	if !s.k.conn.env.Workloads {
		s.k.t.Fatal("scripting pods: no node runs them; set Env.Workloads")
	}
	sim, err := kubelet.New(s.k.Config)
	if err == nil {
		err = act(s.k.Context(), sim)
	}
	if err != nil {
		s.k.t.Fatalf("%v", err)
	}
}
