package sandbox

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SampleCommands returns commands to try on the samples: commands that list them and, if a sample owns a pod, one that
// deletes the pod.
func (s *Sandbox) SampleCommands(ctx context.Context) []string {
	kinds, err := s.kinds()
	if err != nil {
		return nil
	}
	var commands []string
	for _, k := range kinds {
		commands = append(commands, fmt.Sprintf("kubectl get %s --all-namespaces", k.mapping.Resource.Resource))
	}
	var pods corev1.PodList
	if s.client.List(ctx, &pods) != nil {
		return commands
	}
	for _, u := range s.Samples() {
		owner := u.DeepCopy()
		if s.client.Get(ctx, client.ObjectKeyFromObject(u), owner) != nil {
			continue
		}
		owned := func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() }
		for _, pod := range pods.Items {
			if slices.ContainsFunc(pod.OwnerReferences, owned) {
				return append(commands, fmt.Sprintf("kubectl delete pod --namespace %s %s", pod.Namespace, pod.Name))
			}
		}
	}
	return commands
}
