package convert

import (
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/testkit"
)

// runs, serves and tells are met by children that are as the Webapp asks.
func runs(app *api.Webapp) testkit.Check {
	return testkit.Match("the Deployment is as asked", func(d *appsv1.Deployment) bool {
		web, port := d.Spec.Template.Spec.Containers[0], app.Spec.Port
		return *d.Spec.Replicas == app.Spec.Replicas && web.Image == app.Spec.Image && web.Ports[0].ContainerPort == port &&
			web.Env[0] == corev1.EnvVar{Name: "PORT", Value: strconv.Itoa(int(port))} && metav1.IsControlledBy(d, app)
	})
}

func serves(app *api.Webapp) testkit.Check {
	return testkit.Match("the Service is as asked", func(s *corev1.Service) bool {
		port := s.Spec.Ports[0]
		return len(s.Spec.Ports) == 1 && port.Port == app.Spec.Port && port.TargetPort.IntVal == app.Spec.Port &&
			s.Spec.Selector["webapp"] == app.Name && metav1.IsControlledBy(s, app)
	})
}

func tells(app *api.Webapp) testkit.Check {
	want := app.Name + "." + app.Namespace + ".svc:" + strconv.Itoa(int(app.Spec.Port))
	return testkit.Match("the target is as asked", func(c *corev1.ConfigMap) bool { return c.Data["target"] == want })
}

// reports is met by a status that is about the present generation.
func reports(readyReplicas int32) testkit.Check {
	return testkit.Match("the status is current", func(app *api.Webapp) bool {
		for _, c := range app.Status.Conditions {
			if c.ObservedGeneration != app.Generation {
				return false
			}
		}
		return app.Status.ObservedGeneration == app.Generation && app.Status.ReadyReplicas == readyReplicas
	})
}

// All forms do the same.
func TestBehavior(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			behaves(t, f)
		})
	}
}

func behaves(t *testing.T, f form) {
	t.Helper()
	w := newWorld(t)
	w.start(f)
	d, s, target := w.deployment(), w.service(), w.target()

	app := newWebapp()
	w.Apply(app)
	w.Eventually(d, runs(app))
	w.Eventually(s, serves(app))
	w.Eventually(target, tells(app))
	w.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "Progressing"), reports(0))
	w.work(app)
	w.Eventually(app, testkit.Ready(), reports(2))

	w.Update(app, func() { app.Spec = api.WebappSpec{Image: "shop:2", Replicas: 3, Port: 9090} })
	w.Eventually(d, runs(app))
	w.Eventually(s, serves(app))
	w.Eventually(target, tells(app))
	w.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "Progressing"), reports(2))
	w.work(app)
	w.Eventually(app, testkit.Ready(), reports(3))

	w.patch(t, d, types.StrategicMergePatchType,
		`{"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"web","image":"other"}]}}}}`)
	w.patch(t, target, types.MergePatchType, `{"data":{"target":"other"}}`)
	w.Delete(s)
	w.Eventually(s, serves(app))
	w.Eventually(target, tells(app))
	w.work(app)
	w.Eventually(app, testkit.Ready(), reports(3))

	w.Delete(app)
	w.Eventually(app, testkit.Gone())
	w.Eventually(target, testkit.Gone())
	w.Eventually(d, testkit.Gone())
	w.Eventually(s, testkit.Gone())
}
