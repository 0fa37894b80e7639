// Package policy decides what the children of a MyApp may become. Its functions are pure.
package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
)

// KeepSize raises the request of want to the granted size, because a claim cannot shrink. This concerns claims that a
// predecessor retained and claims that were expanded by hand. An unbound claim keeps its request, because only a bound
// claim can be expanded. A request below an expansion that was not granted is left as it is: the API server accepts it if
// it exceeds the capacity.
func KeepSize(want, live *corev1.PersistentVolumeClaim) {
	asked, capacity := live.Spec.Resources.Requests[corev1.ResourceStorage], live.Status.Capacity[corev1.ResourceStorage]
	size := want.Spec.Resources.Requests[corev1.ResourceStorage]
	granted := size.Cmp(asked) < 0 && asked.Cmp(capacity) <= 0
	if granted || live.Status.Phase != corev1.ClaimBound {
		want.Spec.Resources.Requests[corev1.ResourceStorage] = asked
	}
}

// Granted returns the size that the live claim asks for if want asks for more, "" otherwise.
func Granted(want, live *corev1.PersistentVolumeClaim) string {
	size, asked := want.Spec.Resources.Requests[corev1.ResourceStorage], live.Spec.Resources.Requests[corev1.ResourceStorage]
	if live.UID == "" || size.Cmp(asked) <= 0 {
		return ""
	}
	return asked.String()
}

// SingleNode reports whether only one node at a time can mount a volume with these access modes.
func SingleNode(modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// MultiplePods reports whether the specification asks for more than one pod.
func MultiplePods(app *v1.MyApp) bool {
	scaling := app.Spec.Autoscaling
	return app.Spec.Replicas != nil && *app.Spec.Replicas > 1 || scaling != nil && scaling.MaxReplicas > 1
}
