package desired

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// The fields of a pod and of a container that decide what runs and with which rights. A field that the MyApp does not set
// has no value, even if another client sets it on the Deployment.
var (
	podFields = []string{
		"HostNetwork", "HostPID", "HostIPC", "HostUsers", "ShareProcessNamespace", "ServiceAccountName",
		"AutomountServiceAccountToken", "SecurityContext", "NodeName", "RuntimeClassName", "HostAliases", "DNSConfig",
		"ResourceClaims",
	}
	containerFields = []string{
		"Command", "Args", "WorkingDir", "EnvFrom", "VolumeDevices", "Lifecycle", "LivenessProbe", "ReadinessProbe",
		"StartupProbe", "SecurityContext",
	}
)

// RemoveForeignPods returns a function for sdk.RemoveForeign: it removes what other clients added to the pod template of the
// Deployment and what decides what runs and with which rights. Replicas, labels, annotations, resources and scheduling stay
// with other clients.
func RemoveForeignPods(want *appsv1.Deployment) func(live *appsv1.Deployment) []string {
	return func(live *appsv1.Deployment) []string {
		r := remover{at: "spec.template.spec"}
		wanted, pod := &want.Spec.Template.Spec, &live.Spec.Template.Spec
		r.fields(pod, wanted, podFields...)
		if wanted.ServiceAccountName == "" {
			r.fields(pod, wanted, "DeprecatedServiceAccount")
		}
		if wanted.DNSPolicy == "" && pod.DNSPolicy != "" && pod.DNSPolicy != corev1.DNSClusterFirst {
			pod.DNSPolicy = corev1.DNSClusterFirst
			r.found("dnsPolicy")
		}
		pod.Volumes = items(&r, "volumes", pod.Volumes, wanted.Volumes, volumeKey, func(v, w *corev1.Volume) {
			r.fields(&v.VolumeSource, &w.VolumeSource)
			if v.VolumeSource == (corev1.VolumeSource{}) { // emptyDir would be the default
				v.VolumeSource = *w.VolumeSource.DeepCopy()
			}
		})
		pod.InitContainers = items(&r, "initContainers", pod.InitContainers, wanted.InitContainers, containerKey, r.container)
		pod.Containers = items(&r, "containers", pod.Containers, wanted.Containers, containerKey, r.container)
		if len(pod.Containers) == 0 { // the API server requires one; the apply completes it
			for _, c := range wanted.Containers {
				pod.Containers = append(pod.Containers, corev1.Container{Name: c.Name, Image: c.Image})
			}
		}
		return r.paths
	}
}

func volumeKey(v *corev1.Volume) string { return v.Name }

func containerKey(c *corev1.Container) string { return c.Name }

// RemoveForeignPorts returns a function for sdk.RemoveForeign: it removes the ports and external addresses that other
// clients added to the Service.
func RemoveForeignPorts(want *corev1.Service) func(live *corev1.Service) []string {
	return func(live *corev1.Service) []string {
		r := remover{at: "spec"}
		r.fields(&live.Spec, &want.Spec, "ExternalIPs", "ExternalName")
		live.Spec.Ports = items(&r, "ports", live.Spec.Ports, want.Spec.Ports, servicePortKey, nil)
		if len(live.Spec.Ports) == 0 { // the API server requires one
			live.Spec.Ports = slices.Clone(want.Spec.Ports)
		}
		return r.paths
	}
}

func servicePortKey(p *corev1.ServicePort) string {
	return fmt.Sprintf("%d/%s", p.Port, cmp.Or(p.Protocol, corev1.ProtocolTCP))
}

// HasPort reports whether the Service has a port of that number and protocol.
func HasPort(service *corev1.Service, port corev1.ServicePort) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return servicePortKey(&p) == servicePortKey(&port)
	})
}

// RemoveForeignBackends returns a function for sdk.RemoveForeign: it removes a default backend and certificates that other
// clients added to the Ingress.
func RemoveForeignBackends(want *networkingv1.Ingress) func(live *networkingv1.Ingress) []string {
	return func(live *networkingv1.Ingress) []string {
		r := remover{at: "spec"}
		r.fields(&live.Spec, &want.Spec, "DefaultBackend", "TLS")
		return r.paths
	}
}

// remover removes content from an object and records its paths.
type remover struct {
	at    string
	paths []string
}

func (r *remover) found(name string) { r.paths = append(r.paths, r.at+"."+name) }

// below calls f with a longer path.
func (r *remover) below(name string, f func()) {
	before := r.at
	r.at += "." + name
	f()
	r.at = before
}

// fields clears the fields of the struct live that want does not set: those with these Go names, or all. A struct behind a
// pointer that both set is cleared field by field.
func (r *remover) fields(live, want any, names ...string) {
	l, w := reflect.ValueOf(live).Elem(), reflect.ValueOf(want).Elem()
	for i := range l.NumField() {
		field := l.Type().Field(i)
		if len(names) > 0 && !slices.Contains(names, field.Name) || l.Field(i).IsZero() {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		isStruct := field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct
		switch {
		case field.Name == "SecurityContext" && l.Field(i).Elem().IsZero(), field.Name == "ProcMount":
			// A default of the API server.
		case w.Field(i).IsZero():
			l.Field(i).SetZero()
			r.found(name)
		case isStruct && strings.HasSuffix(field.Name, "SecurityContext"), isStruct && field.Name == "Capabilities":
			r.below(name, func() { r.fields(l.Field(i).Interface(), w.Field(i).Interface()) })
		}
	}
}

// container removes what other clients added to a container.
func (r *remover) container(live, want *corev1.Container) {
	r.fields(live, want, containerFields...)
	live.Env = items(r, "env", live.Env, want.Env, func(e *corev1.EnvVar) string { return e.Name }, nil)
	live.VolumeMounts = items(r, "volumeMounts", live.VolumeMounts, want.VolumeMounts,
		func(m *corev1.VolumeMount) string { return m.MountPath }, func(m, w *corev1.VolumeMount) { r.fields(m, w) })
	live.Ports = items(r, "ports", live.Ports, want.Ports, containerPortKey, func(p, w *corev1.ContainerPort) {
		r.fields(p, w, "HostPort", "HostIP")
	})
}

func containerPortKey(p *corev1.ContainerPort) string {
	return fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP))
}

// items returns the live items that have the key of a wanted one, after the cleaning of each of them.
func items[T any](r *remover, name string, live, want []T, key func(*T) string, clean func(live, want *T)) []T {
	kept := make([]T, 0, len(live))
	for i := range live {
		k := key(&live[i])
		j := slices.IndexFunc(want, func(w T) bool { return key(&w) == k })
		if j < 0 {
			r.below(name, func() { r.found(k) })
			continue
		}
		if clean != nil {
			r.below(name+"."+k, func() { clean(&live[i], &want[j]) })
		}
		kept = append(kept, live[i])
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
