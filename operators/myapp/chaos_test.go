package myapp_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// All faults at all relevant places, with two replicas and a leader that crashes. The outcome must be that of a run
// without a fault. With -short only some plans run.
func TestFaults(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, myapp.Operator, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) {
			app := fullMyApp("a")
			app.Spec.DeletionPolicy = v1.DeletionDelete // the sweep checks that nothing is left
			k.Apply(app)
		}},
		{Name: "change the image", Do: func(k *testkit.K) {
			app := newMyApp("a")
			k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
		}},
		{Name: "ask for less", Do: func(k *testkit.K) {
			app := newMyApp("a")
			k.Update(app, func() {
				app.Spec.Service.Enabled = false
				app.Spec.Ingress.Enabled = false
				app.Spec.Autoscaling = nil
				app.Spec.Storage.Size = "2Gi"
				app.Spec.Replicas = new(int32(2))
			})
		}},
		{Name: "delete the Deployment", Do: func(k *testkit.K) { k.Delete(deployment("a")) }},
	}, chaos.All,
		// The autoscaler sets the replicas. It reacts at once to a manual change and does not undo its decision.
		chaos.ExternallyManaged("deployments.apps/a.spec.replicas", "horizontalpodautoscalers.autoscaling/a.spec.minReplicas"))
}
