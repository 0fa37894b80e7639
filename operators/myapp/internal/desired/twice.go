package desired

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// twice returns an error that names an item which a list of the template has twice, nil if there is none. The API server
// tells the items of these lists apart by such keys, and answers an apply that repeats one as if it were broken itself.
func twice(t *corev1.PodTemplateSpec) error {
	s := &t.Spec
	errs := []error{
		repeated("spec.volumes", s.Volumes, func(v corev1.Volume) string { return v.Name }),
		repeated("spec.containers", s.Containers, func(c corev1.Container) string { return c.Name }),
		repeated("spec.initContainers", s.InitContainers, func(c corev1.Container) string { return c.Name }),
		repeated("spec.imagePullSecrets", s.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name }),
		repeated("spec.hostAliases", s.HostAliases, func(a corev1.HostAlias) string { return a.IP }),
		repeated("spec.topologySpreadConstraints", s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) string {
			return c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		}),
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		errs = append(errs,
			repeated("env of container "+c.Name, c.Env, func(e corev1.EnvVar) string { return e.Name }),
			repeated("volumeMounts of container "+c.Name, c.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }),
			repeated("ports of container "+c.Name, c.Ports, func(p corev1.ContainerPort) string {
				return fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP))
			}))
	}
	return cmp.Or(errs...)
}

func repeated[T any](list string, items []T, key func(T) string) error {
	seen := map[string]bool{}
	for _, x := range items {
		k := key(x)
		if seen[k] {
			return fmt.Errorf("spec.podTemplate: %s has %s twice", list, k)
		}
		seen[k] = true
	}
	return nil
}
