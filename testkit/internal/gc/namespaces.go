package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
)

// AbandonAnnotation on a namespace says that nobody is left who would take finalizers off its contents. When the
// namespace is deleted, the janitor does.
const AbandonAnnotation = "testkit.homeostat.dev/abandon"

// parallelLists bounds the requests that emptying one namespace makes at once.
const parallelLists = 16

// settleTime is how long a namespace has been on its way out before its contents are counted. The API server refuses
// new objects in it at once, except those it was just about to accept.
const settleTime = 20 * time.Millisecond

var pods = schema.GroupResource{Resource: "pods"}

// sightings remembers which namespaces are being deleted, and since when that is known.
type sightings struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func newSightings() *sightings { return &sightings{since: map[string]time.Time{}} }

func (s *sightings) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.since[name]; !ok {
		s.since[name] = time.Now()
	}
}

func (s *sightings) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, name)
}

func (s *sightings) get(name string) (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok = s.since[name]
	return since, ok
}

// namespaceChanged looks at a namespace that is being deleted when it, or something in it, has changed.
func (j *Collector) namespaceChanged(n *node) {
	if n.kind.gvk == corev1.SchemeGroupVersion.WithKind("Namespace") {
		if n.deleting {
			j.closing.add(n.name)
			j.namespaces.AddAfter(n.name, settleTime)
		}
		return
	}
	if since, ok := j.closing.get(n.namespace); ok && time.Since(since) > settleTime {
		j.namespaces.Add(n.namespace)
	}
}

// errRemaining means that a namespace is not empty yet.
var errRemaining = errors.New("something remains")

// processNamespace deletes what a deleted namespace contains and lets it go when nothing is left.
func (j *Collector) processNamespace(ctx context.Context, name string) error {
	ns, err := j.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		j.closing.remove(name)
		return nil
	case err != nil:
		return fmt.Errorf("getting namespace %s: %w", name, err)
	case ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes):
		return nil
	}
	left, err := j.empty(ctx, ns)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return errors.Join(errRemaining, j.report(ctx, ns, left))
	}
	return j.finalize(ctx, ns)
}

func (j *Collector) finalize(ctx context.Context, ns *corev1.Namespace) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := j.core.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		if err != nil || live.UID != ns.UID {
			return err //nolint:wrapcheck // wrapped below
		}
		ours := func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes }
		live.Spec.Finalizers = slices.DeleteFunc(live.Spec.Finalizers, ours)
		_, err = j.core.CoreV1().Namespaces().Finalize(ctx, live, metav1.UpdateOptions{})
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalizing namespace %s: %w", ns.Name, err)
	}
	return nil
}

// A remnant is what is left of one kind.
type remnant struct {
	kind       kind
	count      int
	finalizers map[string]int
}

// empty deletes everything in a namespace, pods before what they may need to end, and returns what is left.
func (j *Collector) empty(ctx context.Context, ns *corev1.Namespace) ([]remnant, error) {
	var first, rest []kind
	for _, k := range j.known() {
		switch {
		case !k.namespaced:
		case k.gvr.GroupResource() == pods:
			first = append(first, k)
		default:
			rest = append(rest, k)
		}
	}
	left, err := j.emptyKinds(ctx, ns, first)
	if err != nil || len(left) > 0 {
		return left, err
	}
	return j.emptyKinds(ctx, ns, rest)
}

func (j *Collector) emptyKinds(ctx context.Context, ns *corev1.Namespace, kinds []kind) ([]remnant, error) {
	var mu sync.Mutex
	var left []remnant
	err := j.forKinds(ctx, kinds, func(ctx context.Context, k kind) error {
		r, err := j.emptyKind(ctx, ns, k)
		if err == nil && r.count > 0 {
			mu.Lock()
			left = append(left, r)
			mu.Unlock()
		}
		return err
	})
	return left, err
}

// emptyKind deletes the objects of one kind. Those without finalizers are gone when it returns.
func (j *Collector) emptyKind(ctx context.Context, ns *corev1.Namespace, k kind) (remnant, error) {
	objects := j.content.Resource(k.gvr).Namespace(ns.Name)
	list, err := objects.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // the custom resource is being removed itself
		return remnant{}, nil
	}
	if err != nil {
		return remnant{}, fmt.Errorf("listing %s: %w", k.gvr.Resource, err)
	}
	if len(list.Items) == 0 {
		return remnant{}, nil
	}
	if err := j.deleteAll(ctx, ns, k, list.Items); err != nil {
		return remnant{}, err
	}
	if list, err = objects.List(ctx, metav1.ListOptions{}); err != nil {
		return remnant{}, fmt.Errorf("listing %s: %w", k.gvr.Resource, err)
	}
	r := remnant{kind: k, count: len(list.Items), finalizers: map[string]int{}}
	for i := range list.Items {
		for _, f := range list.Items[i].Finalizers {
			r.finalizers[f]++
		}
	}
	return r, nil
}

func (j *Collector) deleteAll(
	ctx context.Context, ns *corev1.Namespace, k kind, items []metav1.PartialObjectMetadata,
) error {
	abandoned := ns.Annotations[AbandonAnnotation] != ""
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if abandoned {
		options.GracePeriodSeconds = new(int64(0))
	}
	for i := range items {
		n := newNode(k, &items[i])
		if abandoned && len(n.finalizers) > 0 {
			strip := func(*metav1.PartialObjectMetadata) metav1.ObjectMeta {
				return metav1.ObjectMeta{Finalizers: []string{}}
			}
			if err := j.change(ctx, n, strip); err != nil {
				return err
			}
		}
		if n.deleting && !abandoned {
			continue
		}
		err := j.content.Resource(k.gvr).Namespace(ns.Name).Delete(ctx, n.name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", n, err)
		}
	}
	if k.gvr.GroupResource() == pods && !abandoned {
		return j.deleteLostPods(ctx, ns.Name)
	}
	return nil
}

// deleteLostPods ends pods on nodes that do not exist: no kubelet will ever confirm their end.
func (j *Collector) deleteLostPods(ctx context.Context, namespace string) error {
	list, err := j.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		_, err := j.core.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if pod.Spec.NodeName == "" || !apierrors.IsNotFound(err) {
			continue
		}
		options := *metav1.NewDeleteOptions(0)
		options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
		err = j.core.CoreV1().Pods(namespace).Delete(ctx, pod.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func (j *Collector) forKinds(ctx context.Context, kinds []kind, f func(context.Context, kind) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLists)
	for _, k := range kinds {
		group.Go(func() error { return f(ctx, k) })
	}
	return group.Wait() //nolint:wrapcheck // f wraps
}
