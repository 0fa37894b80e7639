package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes the remaining contents to the namespace's status, with the messages of the Kubernetes controller.
func (c *Collector) report(ctx context.Context, ns *corev1.Namespace, left []remainingObjects) error {
	slices.SortFunc(left, func(a, b remainingObjects) int {
		return strings.Compare(a.kind.gvr.GroupResource().String(), b.kind.gvr.GroupResource().String())
	})
	var content []string
	counts := map[string]int{}
	for _, r := range left {
		content = append(content, fmt.Sprintf("%s has %d resource instances", r.kind.gvr.GroupResource(), r.count))
		for f, n := range r.finalizers {
			counts[f] += n
		}
	}
	var finalizers []string
	for _, f := range slices.Sorted(maps.Keys(counts)) {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", f, counts[f]))
	}
	changed := setCondition(ns, corev1.NamespaceContentRemaining, "SomeResourcesRemain",
		"Some resources are remaining: ", content)
	changed = setCondition(ns, corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
		"Some content in the namespace has finalizers remaining: ", finalizers) || changed
	if !changed {
		return nil
	}
	_, err := c.core.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("reporting on namespace %s: %w", ns.Name, err)
	}
	return nil
}

func setCondition(
	ns *corev1.Namespace, kind corev1.NamespaceConditionType, reason, prefix string, items []string,
) (changed bool) {
	c := corev1.NamespaceCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason,
		Message: prefix + strings.Join(items, ", "), LastTransitionTime: metav1.Now(),
	}
	if len(items) == 0 {
		c.Status = corev1.ConditionFalse
		c.Reason = "ContentHasNoFinalizers"
		c.Message = "Nothing remains"
	}
	i := slices.IndexFunc(ns.Status.Conditions, func(old corev1.NamespaceCondition) bool { return old.Type == kind })
	if i < 0 {
		ns.Status.Conditions = append(ns.Status.Conditions, c)
		return true
	}
	old := &ns.Status.Conditions[i]
	if old.Status == c.Status && old.Message == c.Message {
		return false
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
	return true
}
