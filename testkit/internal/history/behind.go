package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxLag is the maximum latency of a watch event on an unloaded machine.
const maxLag = time.Second

// IsBehind reports whether the log lags behind the API server in its namespaces. It lists every kind, so call it only for a
// suspicion.
func (l *Log) IsBehind(ctx context.Context) (bool, error) {
	for _, namespace := range l.namespaces() {
		for _, kind := range l.recorder.kinds() {
			behind, err := l.isBehindIn(ctx, namespace, kind)
			if behind || err != nil {
				return behind, err
			}
		}
	}
	return false, nil
}

// isBehindIn reports whether the log lags behind with the objects of a kind in a namespace.
func (l *Log) isBehindIn(ctx context.Context, namespace string, kind schema.GroupVersionResource) (bool, error) {
	before := l.currentOf(kind, namespace)
	list, err := l.recorder.client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotFound(err):
		return false, nil // a cluster-scoped kind, for example
	case err != nil:
		return false, fmt.Errorf("asking for the objects in namespace %s: %w", namespace, err)
	}
	for end := time.After(maxLag); ; {
		changed := l.Changed()
		if !l.isMissing(kind, namespace, before, list.Items) {
			return false, nil
		}
		select {
		case <-changed:
		case <-end:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// kinds returns the watched kinds, except those that the API server rejects.
func (r *Recorder) kinds() []schema.GroupVersionResource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []schema.GroupVersionResource
	for kind, w := range r.watches {
		if !w.refused.Load() {
			all = append(all, kind)
		}
	}
	return all
}

// currentOf returns the objects of one kind in a namespace of the log, with their versions.
func (l *Log) currentOf(kind schema.GroupVersionResource, namespace string) map[types.UID]string {
	all := map[types.UID]string{}
	for _, c := range l.CurrentObjects() {
		if c.Resource == kind && c.Object.GetNamespace() == namespace {
			all[c.Object.GetUID()] = c.Object.GetResourceVersion()
		}
	}
	return all
}

// isMissing reports whether the log lacks anything of a list. The list was made after the log contained before.
func (l *Log) isMissing(
	kind schema.GroupVersionResource, namespace string, before map[types.UID]string, list []unstructured.Unstructured,
) bool {
	now, listed := l.currentOf(kind, namespace), map[types.UID]bool{}
	for i := range list {
		uid, version := list[i].GetUID(), list[i].GetResourceVersion()
		listed[uid] = true
		shown, exists := now[uid]
		switch {
		case exists && Older(shown, version):
			return true
		case !exists && list[i].GetCreationTimestamp().After(l.Began) && !l.hasSeen(uid):
			return true
		}
	}
	for uid := range before {
		if _, exists := now[uid]; exists && !listed[uid] {
			return true // its deletion was missed
		}
	}
	return false
}

// hasSeen reports whether the log contains any state of an object.
func (l *Log) hasSeen(uid types.UID) bool {
	return slices.ContainsFunc(l.Changes(), func(c Change) bool { return c.Object.GetUID() == uid })
}

// Older reports whether resourceVersion a is older than b. It returns false if they cannot be compared.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// InOrder returns changes in the order in which the API server made them. A log has them in the order of arrival: the
// watches of several kinds send them independently.
func InOrder(changes []Change) []Change {
	ordered := slices.Clone(changes)
	slices.SortStableFunc(ordered, func(a, b Change) int {
		order, err := resourceversion.CompareResourceVersion(a.Object.GetResourceVersion(), b.Object.GetResourceVersion())
		if err != nil {
			return 0
		}
		return order
	})
	return ordered
}
