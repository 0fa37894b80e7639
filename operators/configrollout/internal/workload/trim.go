package workload

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// Annotations of the pod template of a trimmed workload. They are never written to the API server.
const (
	// templateSum is the sum of the whole template.
	templateSum = annotation.Prefix + "template-sum"
	// oversized replaces a template with too many references.
	oversized = annotation.Prefix + "oversized"
)

// token is the beginning of the values of these annotations. Users cannot know it, and so cannot write such values.
var token = rand.Text()

// maxParts is the maximal number of volumes, mounts and variables of a template. The cost of a template grows with the
// square of that number.
const maxParts = 4096

// Oversized reports whether the pod template has so many volumes, mounts and variables that its references are unknown.
func Oversized(o client.Object) bool {
	t := Template(o)
	return t.Annotations[oversized] == token || parts(&t.Spec) > maxParts
}

// TemplateSum identifies the pod template without the digest of the operator.
func TemplateSum(o client.Object) string {
	if sum, ok := strings.CutPrefix(Template(o).Annotations[templateSum], token); ok {
		return sum
	}
	template := Template(o).DeepCopy()
	delete(template.Annotations, annotation.Digest)
	text, err := json.Marshal(template)
	if err != nil { // it was decoded from JSON
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Trim removes everything from a workload that the operator does not use, so that the memory for one workload is limited
// and does not depend on its size. Only the cache has trimmed workloads. Trimming again has no effect.
func Trim(o client.Object) {
	if strings.HasPrefix(Template(o).Annotations[templateSum], token) {
		return
	}
	sum := TemplateSum(o)
	o.SetAnnotations(annotation.Trim(o.GetAnnotations()))
	o.SetManagedFields(nil)
	o.SetLabels(nil)
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	switch o := o.(type) {
	case *appsv1.Deployment:
		o.Spec.Selector = nil
		o.Status.Conditions = progressing(o.Status.Conditions)
	case *appsv1.StatefulSet:
		o.Spec.Selector = nil
		o.Spec.VolumeClaimTemplates = nil
		o.Status.Conditions = nil
	case *appsv1.DaemonSet:
		o.Spec.Selector = nil
		o.Status.Conditions = nil
	}
	template, digest := Template(o), Digest(o)
	trimmed := corev1.PodTemplateSpec{}
	trimmed.Annotations = map[string]string{templateSum: token + sum}
	if digest != "" {
		trimmed.Annotations[annotation.Digest] = digest
	}
	if parts(&template.Spec) > maxParts {
		trimmed.Annotations[oversized] = token
	} else {
		trimmed.Spec = references(&template.Spec)
	}
	*template = trimmed
}

// progressing returns the condition Progressing without its message.
func progressing(all []appsv1.DeploymentCondition) []appsv1.DeploymentCondition {
	for _, c := range all {
		if c.Type == appsv1.DeploymentProgressing {
			c.Message = ""
			return []appsv1.DeploymentCondition{c}
		}
	}
	return nil
}

// parts counts what may refer to a ConfigMap or Secret.
func parts(spec *corev1.PodSpec) int {
	n := len(spec.Volumes)
	for _, v := range spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			n += len(v.ConfigMap.Items)
		case v.Secret != nil:
			n += len(v.Secret.Items)
		case v.Projected != nil:
			n += len(v.Projected.Sources)
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					n += len(s.ConfigMap.Items)
				}
				if s.Secret != nil {
					n += len(s.Secret.Items)
				}
			}
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			n += len(containers[i].EnvFrom) + len(containers[i].VolumeMounts)
			for _, env := range containers[i].Env {
				if env.ValueFrom != nil {
					n++
				}
			}
		}
	}
	return n
}

// references returns the part of a pod's spec that refers to ConfigMaps and Secrets.
func references(spec *corev1.PodSpec) corev1.PodSpec {
	var trimmed corev1.PodSpec
	used := map[string]bool{}
	for _, v := range spec.Volumes {
		source := corev1.VolumeSource{ConfigMap: v.ConfigMap, Secret: v.Secret}
		if v.Projected != nil {
			source.Projected = &corev1.ProjectedVolumeSource{}
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil || s.Secret != nil {
					s = corev1.VolumeProjection{ConfigMap: s.ConfigMap, Secret: s.Secret}
					source.Projected.Sources = append(source.Projected.Sources, s)
				}
			}
		}
		if v.ConfigMap != nil || v.Secret != nil || v.Projected != nil {
			used[v.Name] = true
			trimmed.Volumes = append(trimmed.Volumes, corev1.Volume{Name: v.Name, VolumeSource: source})
		}
	}
	trimmed.InitContainers = trimContainers(spec.InitContainers, used)
	trimmed.Containers = trimContainers(spec.Containers, used)
	return trimmed
}

func trimContainers(containers []corev1.Container, volumes map[string]bool) []corev1.Container {
	var all []corev1.Container
	for i := range containers {
		c := corev1.Container{}
		for _, from := range containers[i].EnvFrom {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: from.ConfigMapRef, SecretRef: from.SecretRef})
		}
		for _, env := range containers[i].Env {
			if v := env.ValueFrom; v != nil && (v.ConfigMapKeyRef != nil || v.SecretKeyRef != nil) {
				c.Env = append(c.Env, corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: v.ConfigMapKeyRef, SecretKeyRef: v.SecretKeyRef,
				}})
			}
		}
		for _, m := range containers[i].VolumeMounts {
			if volumes[m.Name] {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
					Name: m.Name, SubPath: m.SubPath, SubPathExpr: m.SubPathExpr,
				})
			}
		}
		all = append(all, c)
	}
	return all
}
