package immortalcontainer_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, immortalcontainer.Operator, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(newContainer("a")) }},
		{Name: "change the image", Do: func(k *testkit.K) {
			c := newContainer("a")
			k.Update(c, func() { c.Spec.Image = "nginx:2" })
		}},
		{Name: "delete the pod", Do: func(k *testkit.K) { k.Delete(podOf(k, "a")) }},
	}, chaos.All)
}
