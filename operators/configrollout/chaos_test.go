package configrollout_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// All faults at all relevant places. The outcome must be that of a run without a fault. With -short only some plans run.
func TestFaults(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, newOperator(t), chaos.Scenario{
		{Name: "change", Do: func(k *testkit.K) { change(k, "conf", "a", "2") }},
		{Name: "change again", Do: func(k *testkit.K) { change(k, "conf", "a", "3") }},
		{Name: "appear", Do: func(k *testkit.K) { k.Apply(configMap("optional", "a", "1")) }},
		{Name: "leave", Do: func(k *testkit.K) {
			d := deploymentRef("a")
			k.Update(d, func() { delete(d.Annotations, prefix+"enabled") })
		}},
	}, chaos.All, chaos.BeforeRun(func(k *testkit.K) {
		k.Apply(configMap("conf", "a", "1"))
		d := deployment("a", "conf", "configmaps", "extra")
		d.Spec.RevisionHistoryLimit = new(int32(0)) // the number of rollouts may differ
		k.Apply(configMap("extra", "a", "1"))
		d.Spec.Template.Spec.Containers[0].EnvFrom = optional("optional")
		op := start(t, k)
		adopt(k, d)
		op.Stop()
	}))
}
