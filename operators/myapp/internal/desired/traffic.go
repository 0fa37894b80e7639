package desired

import (
	"net"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
)

// Service returns the Service of the pods.
func Service(app *v1.MyApp) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Labels: labels(app)},
		Spec:       corev1.ServiceSpec{Type: app.Spec.Service.Type, Selector: labels(app)},
	}
	for i, p := range app.Spec.Ports {
		port := corev1.ServicePort{
			Name: p.Name, Port: p.ContainerPort, Protocol: p.Protocol, TargetPort: intstr.FromString(p.Name),
		}
		if i == 0 && app.Spec.Service.Port != nil {
			port.Port = *app.Spec.Service.Port
		}
		service.Spec.Ports = append(service.Spec.Ports, port)
	}
	return service
}

// Ingress returns the Ingress to the [Service].
func Ingress(app *v1.MyApp) *networkingv1.Ingress {
	spec := &app.Spec.Ingress
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Labels: labels(app)},
		Spec: networkingv1.IngressSpec{
			IngressClassName: spec.ClassName,
			Rules: []networkingv1.IngressRule{{
				Host: spec.Host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path: spec.Path, PathType: new(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
							Name: app.Name, Port: networkingv1.ServiceBackendPort{Name: app.Spec.Ports[0].Name},
						}},
					}},
				}},
			}},
		},
	}
	if spec.TLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{spec.Host}, SecretName: spec.TLSSecretName}}
	}
	return ingress
}

// Autoscaler returns the autoscaler of the Deployment.
func Autoscaler(app *v1.MyApp) *autoscalingv2.HorizontalPodAutoscaler {
	spec := app.Spec.Autoscaling
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Labels: labels(app)},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name},
			MinReplicas:    new(spec.MinReplicas),
			MaxReplicas:    spec.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(spec.TargetCPUUtilizationPercentage),
					},
				},
			}},
		},
	}
}

// URL returns the address of the app outside the cluster, or "".
func URL(app *v1.MyApp, service *corev1.Service) string {
	switch spec := &app.Spec.Ingress; {
	case spec.Enabled && spec.TLSSecretName != "":
		return "https://" + spec.Host + spec.Path
	case spec.Enabled:
		return "http://" + spec.Host + spec.Path
	case service == nil:
		return ""
	}
	for _, at := range service.Status.LoadBalancer.Ingress {
		for _, host := range []string{at.Hostname, at.IP} {
			if host != "" && len(service.Spec.Ports) > 0 {
				return "http://" + net.JoinHostPort(host, strconv.Itoa(int(service.Spec.Ports[0].Port)))
			}
		}
	}
	return ""
}
