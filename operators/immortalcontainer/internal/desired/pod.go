package desired

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
)

// ContainerName is the name of the one container.
const ContainerName = "acontainer"

// The labels of the pod, apart from the managed-by label.
const (
	// LabelController is the label promised by the article; its value is the name of the ImmortalContainer.
	LabelController = "controller"
	// LabelName and LabelInstance are the recommended labels of Kubernetes.
	LabelName     = "app.kubernetes.io/name"
	LabelInstance = "app.kubernetes.io/instance"
)

// The annotations record the specification that a pod was created from. The pod's own specification is no record of it:
// admission webhooks may have changed it, and the ImmortalContainer may have changed since.
const (
	// AnnotationRevision is the [Revision] of the specification.
	AnnotationRevision = "immortalcontainer.flugel.it/revision"
	// AnnotationImage is the image of the specification.
	AnnotationImage = "immortalcontainer.flugel.it/image"
)

// PodName returns the name of the pod, <name>-immortalpod.
func PodName(ic *v1alpha1.ImmortalContainer) string { return ic.Name + "-immortalpod" }

// Pod returns the desired pod of the ImmortalContainer. The result shares no memory with ic.
func Pod(ic *v1alpha1.ImmortalContainer) *corev1.Pod {
	spec := podSpec(ic.Spec.DeepCopy())
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      PodName(ic),
			Namespace: ic.Namespace,
			Labels: map[string]string{
				LabelController: ic.Name,
				LabelName:       "immortalcontainer",
				LabelInstance:   ic.Name,
			},
			Annotations: map[string]string{
				AnnotationRevision: revision(spec),
				AnnotationImage:    ic.Spec.Image,
			},
		},
		Spec: spec,
	}
}

func podSpec(s *v1alpha1.ImmortalContainerSpec) corev1.PodSpec {
	return corev1.PodSpec{
		// The kubelet restarts a container inside its pod, faster than the operator could replace the pod.
		RestartPolicy:                 corev1.RestartPolicyAlways,
		Containers:                    []corev1.Container{container(s)},
		SecurityContext:               s.PodSecurityContext,
		Volumes:                       s.Volumes,
		ImagePullSecrets:              s.ImagePullSecrets,
		ServiceAccountName:            s.ServiceAccountName,
		NodeSelector:                  maps.Clone(s.NodeSelector),
		Tolerations:                   s.Tolerations,
		Affinity:                      s.Affinity,
		PriorityClassName:             s.PriorityClassName,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
	}
}

func container(s *v1alpha1.ImmortalContainerSpec) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           s.Image,
		ImagePullPolicy: s.ImagePullPolicy,
		Command:         s.Command,
		Args:            s.Args,
		WorkingDir:      s.WorkingDir,
		Env:             s.Env,
		EnvFrom:         s.EnvFrom,
		Ports:           s.Ports,
		Resources:       s.Resources,
		VolumeMounts:    s.VolumeMounts,
		LivenessProbe:   s.LivenessProbe,
		ReadinessProbe:  s.ReadinessProbe,
		StartupProbe:    s.StartupProbe,
		Lifecycle:       s.Lifecycle,
		SecurityContext: s.SecurityContext,
	}
}
