package myapp

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// applyTraffic applies the Service, the Ingress and the autoscaler. It returns the live Service, or nil if none is
// requested. The Ingress waits for our Service, and the autoscaler for our Deployment, so that neither refers to a foreign
// object of that name.
func applyTraffic(p *sdk.Pass[*v1.MyApp], deployment sdk.AnyChild) (*corev1.Service, error) {
	app, adopt := p.Object, adoptOptions(p.Object)
	var service *corev1.Service
	if app.Spec.Service.Enabled && len(app.Spec.Ports) > 0 {
		inside := desired.Service(app)
		held, err := unnamedPort(p, inside)
		if err != nil {
			return nil, err
		}
		child := sdk.Apply(p, inside, append(append(adopt, held...), sdk.RemoveForeign(desired.RemoveForeignPorts(inside)))...)
		if service = child.Live(); app.Spec.Ingress.Enabled {
			outside := desired.Ingress(app)
			sdk.Apply(p, outside, append(adopt, sdk.AfterCreated(child),
				sdk.RemoveForeign(desired.RemoveForeignBackends(outside)))...)
		}
	}
	if app.Spec.Autoscaling != nil {
		sdk.Apply(p, desired.Autoscaler(app), append(adopt, sdk.AfterCreated(deployment))...)
	}
	return service, nil
}

// unnamedPort holds back the adoption of a Service with another port that has no name: the API server accepts several ports
// with names only, and another client owns that port.
func unnamedPort(p *sdk.Pass[*v1.MyApp], inside *corev1.Service) ([]sdk.ApplyOption, error) {
	if _, ours := sdk.Live(p, inside.DeepCopy()); ours || p.Object.Annotations[AdoptAnnotation] != "true" {
		return nil, nil
	}
	found, err := sdk.Ref(p, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: inside.Name}})
	switch {
	case sdk.Reason(err) != "": // it does not exist
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, port := range found.Spec.Ports {
		if port.Name == "" && !desired.HasPort(inside, port) {
			reason := sdk.Invalid("UnnamedPort", "Service %s has port %d without a name, so that it can have no other port and is "+
				"not adopted: name or remove that port, or delete the Service", inside.Name, port.Port)
			return []sdk.ApplyOption{sdk.HoldBack(reason)}, nil
		}
	}
	return nil, nil
}

// foreignAutoscaler returns the name of a HorizontalPodAutoscaler of another client that scales the Deployment although
// spec.replicas is set, or "". It looks for one only after the replicas were changed, so that it costs nothing otherwise.
func foreignAutoscaler(p *sdk.Pass[*v1.MyApp]) (string, error) {
	app := p.Object
	set, exists := sdk.Live(p, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name}})
	changed := exists && app.Spec.Replicas != nil && set.Spec.Replicas != nil && *set.Spec.Replicas != *app.Spec.Replicas
	if !changed || app.Status.ObservedGeneration != app.Generation { // a new specification is applied first
		return "", nil
	}
	scalers, err := sdk.Find(p, &autoscalingv2.HorizontalPodAutoscaler{}, client.InNamespace(app.Namespace))
	if err != nil {
		return "", fmt.Errorf("looking for autoscalers: %w", err)
	}
	for _, scaler := range scalers {
		target := scaler.Spec.ScaleTargetRef
		if target.Kind == "Deployment" && target.Name == app.Name && !metav1.IsControlledBy(scaler, app) {
			return scaler.Name, nil
		}
	}
	return "", nil
}
