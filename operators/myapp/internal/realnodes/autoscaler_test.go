package realnodes_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The autoscaler adds pods when the app uses much more than it requests, and the operator keeps them.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	k := start(t)
	const replicas = 3
	app := newMyApp(t)
	app.Spec.PodTemplate = nil // its arguments name the volume
	app.Spec.Storage = v1.Storage{Enabled: new(false)}
	app.Spec.Autoscaling = &v1.Autoscaling{MaxReplicas: replicas, TargetCPUUtilizationPercentage: 50}
	app.Spec.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
	k.Apply(app)
	pod := ready(k, app, &corev1.Pod{})
	fetch(t, k, pod, "/compute?for=5m")
	deployment := &appsv1.Deployment{}
	deployment.Name = app.Name
	scaled := testkit.Match("scaled", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == replicas })
	k.Eventually(deployment, scaled)
	k.Eventually(app, testkit.Ready(), testkit.Match("all pods are ready", func(app *v1.MyApp) bool {
		return app.Status.ReadyReplicas == replicas
	}))
	k.Consistently(deployment, time.Second, scaled)
}
