// Package after implements the operator as an sdk.Operator.
package after

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/desired"
)

// New returns the operator. Monitoring is the namespace of the scrape targets.
func New(monitoring string) *sdk.Operator[*api.Webapp] {
	return &sdk.Operator[*api.Webapp]{
		Name:          "webapp",
		FinalizerName: "convert.homeostat.dev/target", // existing Webapps have it
		AddToScheme:   api.AddToScheme,
		Owns:          []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}},
		Reconcile: func(_ context.Context, p *sdk.Pass[*api.Webapp]) error {
			deployment := sdk.Apply(p, desired.Deployment(p.Object))
			sdk.Apply(p, desired.Service(p.Object))
			sdk.Apply(p, desired.Target(p.Object, monitoring))
			p.Object.Status.ReadyReplicas = deployment.Live().Status.ReadyReplicas
			return nil
		},
	}
}
