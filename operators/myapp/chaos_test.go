package myapp_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// Every fault at every moment where it can matter, two replicas whose leader dies among them. What comes of it has to be
// what comes of it without the fault. With -short some are tried.
func TestEverythingThatCanGoWrong(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, myapp.Operator, chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(everything("a")) }},
		{Name: "change the image", Do: func(k *testkit.K) {
			app := newMyApp("a")
			k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
		}},
		{Name: "ask for less", Do: func(k *testkit.K) {
			app := newMyApp("a")
			k.Update(app, func() {
				app.Spec.Service.Enabled, app.Spec.Ingress.Enabled, app.Spec.Autoscaling = false, false, nil
				app.Spec.Storage.Size, app.Spec.Replicas = "2Gi", new(int32(2))
			})
		}},
		{Name: "delete the Deployment", Do: func(k *testkit.K) { k.Delete(deployment("a")) }},
	}, chaos.All,
		// How many pods there are is the autoscaler's to say, which acts at once on what somebody changes by hand, and does
		// not go back.
		chaos.ExternallyManaged("deployments.apps/a.spec.replicas", "horizontalpodautoscalers.autoscaling/a.spec.minReplicas"))
}
