package desired

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkDuplicates returns an error that names a duplicate item of a list in the template. Server-side apply identifies the
// items of these lists by such keys; its error for a duplicate does not name the cause.
func checkDuplicates(t *corev1.PodTemplateSpec) error {
	s := &t.Spec
	errs := []error{
		checkUnique("spec.volumes", s.Volumes, func(v corev1.Volume) string { return v.Name }),
		checkUnique("spec.containers", s.Containers, func(c corev1.Container) string { return c.Name }),
		checkUnique("spec.initContainers", s.InitContainers, func(c corev1.Container) string { return c.Name }),
		checkUnique("spec.imagePullSecrets", s.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name }),
		checkUnique("spec.hostAliases", s.HostAliases, func(a corev1.HostAlias) string { return a.IP }),
		checkUnique("spec.topologySpreadConstraints", s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) string {
			return c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		}),
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		errs = append(errs,
			checkUnique("env of container "+c.Name, c.Env, func(e corev1.EnvVar) string { return e.Name }),
			checkUnique("volumeMounts of container "+c.Name, c.VolumeMounts, func(m corev1.VolumeMount) string {
				return m.MountPath
			}),
			checkUnique("ports of container "+c.Name, c.Ports, func(p corev1.ContainerPort) string {
				return fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP))
			}))
	}
	return cmp.Or(errs...)
}

func checkUnique[T any](list string, items []T, key func(T) string) error {
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
