// Command gadget is an operator: for each Gadget it keeps a Deployment, and it drains that before the Gadget goes.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

var operator = &sdk.Operator[*Gadget]{
	Name:        "gadget",
	AddToScheme: addToScheme,
	Owns:        []client.Object{&appsv1.Deployment{}},
	Reconcile:   reconcile,
	Finalize:    finalize,
}

func main() { program.Main(operator) }

func reconcile(_ context.Context, p *sdk.Pass[*Gadget]) error {
	if p.Object.Spec.Image == "" {
		return sdk.Invalid("ImageMissing", "set spec.image to the image to run, for example nginx:latest")
	}
	d := sdk.Apply(p, deployment(p.Object, p.Object.Spec.Replicas))
	p.Object.Status.ReadyReplicas = d.Live().Status.ReadyReplicas
	return nil
}

// finalize lets every pod end before the Gadget does: it is called until the Deployment is as applied here.
func finalize(_ context.Context, p *sdk.Pass[*Gadget]) error {
	sdk.Apply(p, deployment(p.Object, 0), sdk.Zero("spec.replicas"))
	return nil
}

func deployment(g *Gadget, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"gadget": g.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gadget", Image: g.Spec.Image}}},
			},
		},
	}
}
