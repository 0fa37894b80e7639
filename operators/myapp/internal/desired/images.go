package desired

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// imageReference matches the references that container registries and nodes accept, by the grammar of the OCI
// distribution's reference package. The rule of spec.image in package v1 is the same expression.
var imageReference = regexp.MustCompile(
	`^(([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?` +
		`[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*` +
		`(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?` +
		`(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)

// checkImages returns an error that names an image that no node would start. The API server accepts such an image, and the
// running pods would end for it.
func checkImages(t *corev1.PodTemplateSpec) error {
	for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		if c.Image != "" && !imageReference.MatchString(c.Image) {
			return fmt.Errorf("spec.podTemplate: container %s has image %q, which is not a reference "+
				"[registry[:port]/]name[:tag][@digest]", c.Name, c.Image)
		}
	}
	return nil
}
