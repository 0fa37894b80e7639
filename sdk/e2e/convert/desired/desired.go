// Package desired builds the children of a Webapp with pure functions. It is used from step1 on.
package desired

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
)

// Deployment returns the Deployment of the program.
func Deployment(app *api.Webapp) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: labels(app)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: selector(app)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector(app)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "web",
					Image: app.Spec.Image,
					Env:   []corev1.EnvVar{{Name: "PORT", Value: strconv.Itoa(int(app.Spec.Port))}},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: app.Spec.Port}},
				}}},
			},
		},
	}
}

// Service returns the Service for the program's pods.
func Service(app *api.Webapp) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: labels(app)},
		Spec: corev1.ServiceSpec{
			Selector: selector(app),
			Ports:    []corev1.ServicePort{{Name: "http", Port: app.Spec.Port}},
		},
	}
}

// Target returns the ConfigMap with the scrape target, in the namespace of monitoring.
func Target(app *api.Webapp, monitoring string) *corev1.ConfigMap {
	labels := labels(app)
	labels["webapp-namespace"] = app.Namespace
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: monitoring, Name: app.Namespace + "." + app.Name, Labels: labels},
		Data:       map[string]string{"target": app.Name + "." + app.Namespace + ".svc:" + strconv.Itoa(int(app.Spec.Port))},
	}
}

func selector(app *api.Webapp) map[string]string { return map[string]string{"webapp": app.Name} }

func labels(app *api.Webapp) map[string]string {
	return map[string]string{"webapp": app.Name, "app.kubernetes.io/managed-by": "webapp"}
}
