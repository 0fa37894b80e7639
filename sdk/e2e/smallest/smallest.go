// Package smallest contains the smallest useful operator: one Deployment for each Site, conditions, and a finalizer.
package smallest

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
)

// New returns the operator. Before a Site is deleted, unregister is called with its name until it succeeds.
func New(unregister func(context.Context, string) error) *sdk.Operator[*site.Site] {
	return &sdk.Operator[*site.Site]{
		Name:        "smallest",
		AddToScheme: site.AddToScheme,
		Owns:        []client.Object{&appsv1.Deployment{}},
		Reconcile:   reconcile,
		Finalize: func(ctx context.Context, p *sdk.Pass[*site.Site]) error {
			return unregister(ctx, p.Object.Name)
		},
	}
}

func reconcile(_ context.Context, p *sdk.Pass[*site.Site]) error {
	if p.Object.Spec.Text == "" {
		return sdk.Invalid("TextMissing", "spec.text is empty: set it to what the site shows")
	}
	web := sdk.Apply(p, deployment(p.Object))
	p.Object.Status.Seen = int64(web.Live().Status.ReadyReplicas)
	return nil
}

func deployment(s *site.Site) *appsv1.Deployment {
	labels := map[string]string{"site": s.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "web:1", Args: []string{"--text", s.Spec.Text},
				}}},
			},
		},
	}
}
