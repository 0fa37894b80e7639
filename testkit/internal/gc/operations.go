package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"
)

// errNamespacedOwner is permanent: a cluster-scoped object cannot name the namespace of its owner.
var errNamespacedOwner = errors.New("a cluster-wide object names a namespaced owner")

func ignorePermanent(err error) error {
	if errors.Is(err, errNamespacedOwner) {
		return nil
	}
	return err
}

func (n *node) String() string { return fmt.Sprintf("%s %s/%s", n.kind.gvk.Kind, n.namespace, n.name) }

func (c *Collector) client(n *node) metadata.ResourceInterface {
	return c.metadata.Resource(n.kind.gvr).Namespace(n.namespace)
}

func (c *Collector) get(ctx context.Context, n *node) (*metav1.PartialObjectMetadata, error) {
	live, err := c.client(n).Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("getting %s: %w", n, err)
	}
	return live, nil
}

// findOwner returns the owner that a dependent in the given namespace refers to, or nil. It asks the server unless the
// graph has seen the deletion of the owner.
func (c *Collector) findOwner(
	ctx context.Context, ref metav1.OwnerReference, namespace string,
) (*metav1.PartialObjectMetadata, error) {
	if c.graph.ownerWasDeleted(ref, namespace) {
		return nil, nil //nolint:nilnil // absence is a valid result
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of an owner: %w", err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	} else if namespace == "" {
		return nil, errNamespacedOwner
	}
	owner, err := c.metadata.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && owner.UID != ref.UID:
		return nil, nil //nolint:nilnil // absence is a valid result
	case err != nil:
		return nil, fmt.Errorf("getting an owner: %w", err)
	}
	return owner, nil
}

// delete deletes the object only if it is unchanged since live was read; otherwise the conflict requeues it.
func (c *Collector) delete(
	ctx context.Context, n *node, live *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation,
) error {
	err := c.client(n).Delete(ctx, n.name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
		PropagationPolicy: &policy,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", n, err)
	}
	return nil
}

// patch merges metadata. UID and resourceVersion in it are preconditions.
func (c *Collector) patch(
	ctx context.Context, n *node, change metav1.ObjectMeta,
) (*metav1.PartialObjectMetadata, error) {
	body := map[string]any{"uid": change.UID, "resourceVersion": change.ResourceVersion}
	if change.OwnerReferences != nil {
		body["ownerReferences"] = change.OwnerReferences
	}
	if change.Finalizers != nil {
		body["finalizers"] = change.Finalizers
	}
	data, err := json.Marshal(map[string]any{"metadata": body})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return c.client(n).Patch(ctx, n.name, types.MergePatchType, data, metav1.PatchOptions{})
}

// change applies f to the current metadata of the object, unless the object has been replaced.
func (c *Collector) change(ctx context.Context, n *node, f func(*metav1.PartialObjectMetadata) metav1.ObjectMeta) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := c.get(ctx, n)
		if err != nil || live.UID != n.uid {
			return err
		}
		change := f(live)
		change.UID = live.UID
		change.ResourceVersion = live.ResourceVersion
		_, err = c.patch(ctx, n, change)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("changing the metadata of %s: %w", n, err)
	}
	return nil
}

func (c *Collector) dropOwners(ctx context.Context, n *node, uids ...types.UID) error {
	return c.change(ctx, n, func(live *metav1.PartialObjectMetadata) metav1.ObjectMeta {
		gone := func(ref metav1.OwnerReference) bool { return slices.Contains(uids, ref.UID) }
		refs := slices.DeleteFunc(slices.Clone(live.OwnerReferences), gone)
		return metav1.ObjectMeta{OwnerReferences: append([]metav1.OwnerReference{}, refs...)}
	})
}

func (c *Collector) dropFinalizer(ctx context.Context, n *node, finalizer string) error {
	return c.change(ctx, n, func(live *metav1.PartialObjectMetadata) metav1.ObjectMeta {
		same := func(f string) bool { return f == finalizer }
		left := slices.DeleteFunc(slices.Clone(live.Finalizers), same)
		return metav1.ObjectMeta{Finalizers: append([]string{}, left...)}
	})
}

// listDependents lists all objects on the server that have the object as owner.
func (c *Collector) listDependents(ctx context.Context, n *node) ([]*node, error) {
	var mu sync.Mutex
	var dependents []*node
	err := c.forKinds(ctx, c.allKinds(), func(ctx context.Context, k kind) error {
		if !k.watchable || n.namespace != "" && !k.namespaced {
			return nil
		}
		list, err := c.metadata.Resource(k.gvr).Namespace(n.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s: %w", k.gvr.Resource, err)
		}
		for i := range list.Items {
			owned := func(ref metav1.OwnerReference) bool { return ref.UID == n.uid }
			if slices.ContainsFunc(list.Items[i].OwnerReferences, owned) {
				mu.Lock()
				dependents = append(dependents, newNode(k, &list.Items[i]))
				mu.Unlock()
			}
		}
		return nil
	})
	return dependents, err
}
