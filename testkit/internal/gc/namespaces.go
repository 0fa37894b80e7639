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
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"
)

// AbandonAnnotation on a namespace marks its contents as abandoned: no controller will remove their finalizers. When
// the namespace is deleted, the collector removes them.
const AbandonAnnotation = "testkit.homeostat.dev/abandon"

// parallelLists bounds the concurrent requests for one namespace.
const parallelLists = 16

// drainTime is the delay between the deletion of a namespace and the listing of its contents. The API server rejects
// new objects immediately, except for requests in progress.
const drainTime = 20 * time.Millisecond

var pods = schema.GroupResource{Resource: "pods"}

// firstSeen holds the terminating namespaces, with the time of their first observation.
type firstSeen struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func newFirstSeen() *firstSeen { return &firstSeen{since: map[string]time.Time{}} }

func (s *firstSeen) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.since[name]; !ok {
		s.since[name] = time.Now()
	}
}

func (s *firstSeen) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, name)
}

func (s *firstSeen) get(name string) (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok = s.since[name]
	return since, ok
}

// namespaceChanged queues a terminating namespace when it or its contents have changed.
func (c *Collector) namespaceChanged(n *node) {
	if n.kind.gvk == corev1.SchemeGroupVersion.WithKind("Namespace") {
		if n.deleting {
			c.terminating.add(n.name)
			c.namespaces.AddAfter(n.name, drainTime)
		}
		return
	}
	if since, ok := c.terminating.get(n.namespace); ok && time.Since(since) > drainTime {
		c.namespaces.Add(n.namespace)
	}
}

// errRemaining reports a namespace that is not empty.
var errRemaining = errors.New("something remains")

// processNamespace deletes the contents of a terminating namespace and then its finalizer.
func (c *Collector) processNamespace(ctx context.Context, name string) error {
	ns, err := c.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.terminating.remove(name)
		return nil
	case err != nil:
		return fmt.Errorf("getting namespace %s: %w", name, err)
	case ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes):
		return nil
	}
	left, err := c.empty(ctx, ns)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return errors.Join(errRemaining, c.report(ctx, ns, left))
	}
	return c.finalize(ctx, ns)
}

func (c *Collector) finalize(ctx context.Context, ns *corev1.Namespace) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := c.core.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		if err != nil || live.UID != ns.UID {
			return err
		}
		ours := func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes }
		live.Spec.Finalizers = slices.DeleteFunc(live.Spec.Finalizers, ours)
		_, err = c.core.CoreV1().Namespaces().Finalize(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalizing namespace %s: %w", ns.Name, err)
	}
	return nil
}

// remainingObjects describes the remaining objects of one kind.
type remainingObjects struct {
	kind       kind
	count      int
	finalizers map[string]int
}

// empty deletes all objects in a namespace and returns the remaining ones. It deletes pods first, because they may need
// other objects to end. Then it deletes the objects that the graph has. Only if none of them remains, it lists the other
// kinds, because the graph may lag behind: a namespace is emptied in several attempts, and there are dozens of kinds.
func (c *Collector) empty(ctx context.Context, ns *corev1.Namespace) ([]remainingObjects, error) {
	var first, observed, rest []kind
	contains := c.graph.kindsIn(ns.Name)
	for _, k := range c.allKinds() {
		switch {
		case !k.namespaced:
		case k.gvr.GroupResource() == pods:
			first = append(first, k)
		case contains[k.gvr.GroupResource()]:
			observed = append(observed, k)
		default:
			rest = append(rest, k)
		}
	}
	for _, kinds := range [][]kind{first, observed, rest} {
		if left, err := c.emptyKinds(ctx, ns, kinds); err != nil || len(left) > 0 {
			return left, err
		}
	}
	return nil, nil
}

func (c *Collector) emptyKinds(ctx context.Context, ns *corev1.Namespace, kinds []kind) ([]remainingObjects, error) {
	var mu sync.Mutex
	var left []remainingObjects
	err := c.forKinds(ctx, kinds, func(ctx context.Context, k kind) error {
		r, err := c.emptyKind(ctx, ns, k)
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
func (c *Collector) emptyKind(ctx context.Context, ns *corev1.Namespace, k kind) (remainingObjects, error) {
	objects := c.content.Resource(k.gvr).Namespace(ns.Name)
	list, err := objects.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // the definition is being removed as well
		return remainingObjects{}, nil
	}
	if err != nil {
		return remainingObjects{}, fmt.Errorf("listing %s: %w", k.gvr.Resource, err)
	}
	if len(list.Items) == 0 {
		return remainingObjects{}, nil
	}
	if err := c.deleteAll(ctx, ns, k, list.Items); err != nil {
		return remainingObjects{}, err
	}
	if list, err = objects.List(ctx, metav1.ListOptions{}); err != nil {
		return remainingObjects{}, fmt.Errorf("listing %s: %w", k.gvr.Resource, err)
	}
	r := remainingObjects{kind: k, count: len(list.Items), finalizers: map[string]int{}}
	for i := range list.Items {
		for _, f := range list.Items[i].Finalizers {
			r.finalizers[f]++
		}
	}
	return r, nil
}

func (c *Collector) deleteAll(
	ctx context.Context, ns *corev1.Namespace, k kind, items []metav1.PartialObjectMetadata,
) error {
	abandoned := ns.Annotations[AbandonAnnotation] != ""
	options := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if abandoned {
		options.GracePeriodSeconds = new(int64(0))
	}
	if k.gvr.GroupResource() == events && !slices.ContainsFunc(items, hasFinalizer) {
		return deleteEvents(ctx, c.content.Resource(k.gvr).Namespace(ns.Name), options)
	}
	for i := range items {
		n := newNode(k, &items[i])
		if abandoned && len(n.finalizers) > 0 {
			strip := func(*metav1.PartialObjectMetadata) metav1.ObjectMeta {
				return metav1.ObjectMeta{Finalizers: []string{}}
			}
			if err := c.change(ctx, n, strip); err != nil {
				return err
			}
		}
		if n.deleting && !abandoned {
			continue
		}
		err := c.content.Resource(k.gvr).Namespace(ns.Name).Delete(ctx, n.name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s: %w", n, err)
		}
	}
	if k.gvr.GroupResource() == pods && !abandoned {
		return c.deleteLostPods(ctx, ns.Name)
	}
	return nil
}

func hasFinalizer(m metav1.PartialObjectMetadata) bool { return len(m.Finalizers) > 0 }

// deleteEvents deletes the Events of a namespace in one request, because they are numerous.
func deleteEvents(ctx context.Context, all metadata.ResourceInterface, options metav1.DeleteOptions) error {
	err := all.DeleteCollection(ctx, options, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting events: %w", err)
	}
	return nil
}

// deleteLostPods removes pods on nodes that do not exist: no kubelet will confirm their end.
func (c *Collector) deleteLostPods(ctx context.Context, namespace string) error {
	list, err := c.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	lost := map[string]bool{"": false} // by the name of the node
	for i := range list.Items {
		pod := &list.Items[i]
		if _, known := lost[pod.Spec.NodeName]; !known {
			_, err := c.core.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
			lost[pod.Spec.NodeName] = apierrors.IsNotFound(err)
		}
		if !lost[pod.Spec.NodeName] {
			continue
		}
		options := *metav1.NewDeleteOptions(0)
		options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
		err = c.core.CoreV1().Pods(namespace).Delete(ctx, pod.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func (c *Collector) forKinds(ctx context.Context, kinds []kind, f func(context.Context, kind) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLists)
	for _, k := range kinds {
		group.Go(func() error { return f(ctx, k) })
	}
	return group.Wait()
}
