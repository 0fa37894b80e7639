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

// deploymentMatches, serviceMatches and targetMatches return checks that a child has the state that the Webapp specifies.
func deploymentMatches(app *api.Webapp) testkit.Check {
	return testkit.Match("the Deployment is as specified", func(d *appsv1.Deployment) bool {
		web, port := d.Spec.Template.Spec.Containers[0], app.Spec.Port
		return *d.Spec.Replicas == app.Spec.Replicas && web.Image == app.Spec.Image && web.Ports[0].ContainerPort == port &&
			web.Env[0] == corev1.EnvVar{Name: "PORT", Value: strconv.Itoa(int(port))} && metav1.IsControlledBy(d, app)
	})
}

func serviceMatches(app *api.Webapp) testkit.Check {
	return testkit.Match("the Service is as specified", func(s *corev1.Service) bool {
		port := s.Spec.Ports[0]
		return len(s.Spec.Ports) == 1 && port.Port == app.Spec.Port && port.TargetPort.IntVal == app.Spec.Port &&
			s.Spec.Selector["webapp"] == app.Name && metav1.IsControlledBy(s, app)
	})
}

func targetMatches(app *api.Webapp) testkit.Check {
	want := app.Name + "." + app.Namespace + ".svc:" + strconv.Itoa(int(app.Spec.Port))
	return testkit.Match("the target is as specified", func(c *corev1.ConfigMap) bool { return c.Data["target"] == want })
}

// statusMatches returns a check that the status belongs to the current generation.
func statusMatches(readyReplicas int32) testkit.Check {
	return testkit.Match("the status is current", func(app *api.Webapp) bool {
		for _, c := range app.Status.Conditions {
			if c.ObservedGeneration != app.Generation {
				return false
			}
		}
		return app.Status.ObservedGeneration == app.Generation && app.Status.ReadyReplicas == readyReplicas
	})
}

// All forms have the same behavior.
func TestBehavior(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			checkBehavior(t, f)
		})
	}
}

func checkBehavior(t *testing.T, f form) {
	t.Helper()
	e := newEnv(t)
	e.start(f)
	d, s, target := e.deployment(), e.service(), e.target()

	app := newWebapp()
	e.Apply(app)
	e.Eventually(d, deploymentMatches(app))
	e.Eventually(s, serviceMatches(app))
	e.Eventually(target, targetMatches(app))
	e.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "Progressing"), statusMatches(0))
	e.completeRollout(app)
	e.Eventually(app, testkit.Ready(), statusMatches(2))

	e.Update(app, func() { app.Spec = api.WebappSpec{Image: "shop:2", Replicas: 3, Port: 9090} })
	e.Eventually(d, deploymentMatches(app))
	e.Eventually(s, serviceMatches(app))
	e.Eventually(target, targetMatches(app))
	e.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "Progressing"), statusMatches(2))
	e.completeRollout(app)
	e.Eventually(app, testkit.Ready(), statusMatches(3))

	e.patch(t, d, types.StrategicMergePatchType,
		`{"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"web","image":"other"}]}}}}`)
	e.patch(t, target, types.MergePatchType, `{"data":{"target":"other"}}`)
	e.Delete(s)
	e.Eventually(s, serviceMatches(app))
	e.Eventually(target, targetMatches(app))
	e.completeRollout(app)
	e.Eventually(app, testkit.Ready(), statusMatches(3))

	e.Delete(app)
	e.Eventually(app, testkit.Gone())
	e.Eventually(target, testkit.Gone())
	e.Eventually(d, testkit.Gone())
	e.Eventually(s, testkit.Gone())
}
