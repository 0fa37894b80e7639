package desired

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Container is the name of the container that runs the image.
const Container = "app-container"

// volumeName is the name of the app's volume in the pod.
const volumeName = "data-volume"

// Deployment returns the desired Deployment. Its pods mount the claim unless the name is empty. singleNode means that only
// one node at a time can mount it. The error is about spec.podTemplate.
func Deployment(app *v1.MyApp, claim string, singleNode bool) (*appsv1.Deployment, error) {
	template, err := merge(pod(app, claim), app)
	if err != nil {
		return nil, err
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels["app"] = app.Name
	template.Labels[sdk.InstanceLabel] = app.Name
	template.Labels[sdk.ManagedByLabel] = "myapp"
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name, Labels: labels(app)},
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas(app),
			Selector: &metav1.LabelSelector{MatchLabels: labels(app)},
			Strategy: strategy(app, singleNode),
			Template: template,
		},
	}, nil
}

// labels select the pods of this MyApp. The selector of a Deployment is immutable, so these labels must not change.
func labels(app *v1.MyApp) map[string]string { return map[string]string{"app": app.Name} }

// Selector returns [labels] as text.
func Selector(app *v1.MyApp) string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels(app)})
}

// replicas returns the specified number of pods, or the initial one.
func replicas(app *v1.MyApp) *int32 {
	switch {
	case app.Spec.Autoscaling != nil:
		return new(app.Spec.Autoscaling.MinReplicas)
	case app.Spec.Replicas != nil:
		return app.Spec.Replicas
	default:
		return new(int32(1))
	}
}

// strategy sets both fields of a rolling update. The field manager has to own them, so that they are removed when the
// strategy becomes Recreate.
func strategy(app *v1.MyApp, singleNode bool) appsv1.DeploymentStrategy {
	if app.Spec.Strategy == v1.StrategyRecreate || app.Spec.Strategy != v1.StrategyRollingUpdate && singleNode {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	quarter := intstr.FromString("25%")
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
	}
}

func pod(app *v1.MyApp, claim string) corev1.PodTemplateSpec {
	spec := app.Spec.DeepCopy()
	c := corev1.Container{
		Name: Container, Image: spec.Image, Env: spec.Env, EnvFrom: spec.EnvFrom, Resources: spec.Resources,
		LivenessProbe: spec.LivenessProbe, ReadinessProbe: spec.ReadinessProbe,
	}
	for _, p := range spec.Ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ImagePullSecrets: spec.ImagePullSecrets, ServiceAccountName: spec.ServiceAccountName,
	}}
	if claim != "" {
		c.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: spec.Storage.MountPath}}
		t.Spec.Volumes = []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
	t.Spec.Containers = []corev1.Container{c}
	return t
}

// merge applies spec.podTemplate to the template as a strategic merge patch. Unknown fields are an error.
func merge(template corev1.PodTemplateSpec, app *v1.MyApp) (corev1.PodTemplateSpec, error) {
	if app.Spec.PodTemplate == nil || len(app.Spec.PodTemplate.Raw) == 0 {
		return template, nil
	}
	var patch corev1.PodTemplateSpec
	if err := decode(app.Spec.PodTemplate.Raw, &patch); err != nil {
		return template, err
	}
	ours, err := json.Marshal(template)
	if err != nil {
		return template, fmt.Errorf("encoding the pod template: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatch(ours, app.Spec.PodTemplate.Raw, template)
	if err != nil {
		return template, fmt.Errorf("spec.podTemplate: %w", err)
	}
	var result corev1.PodTemplateSpec
	if err := decode(merged, &result); err != nil {
		return template, err
	}
	return result, cmp.Or(checkDuplicates(&result), checkImages(&result))
}

func decode(raw []byte, into *corev1.PodTemplateSpec) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err := errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("spec.podTemplate: %w", err)
	}
	return nil
}
