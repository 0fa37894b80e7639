package sdk

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// This file implements the flag --dry-run: one plan for each object in the cluster, with reads only.

// dryRun prints the plan for each object in the cluster.
func (op *Operator[T]) dryRun(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
	k, err := op.offlineKinds()
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: k.scheme})
	if err != nil {
		return fmt.Errorf("creating the client of operator %s: %w", op.Name, err)
	}
	if k.mapper = c.RESTMapper(); !k.known(k.primary) {
		return k.primaryMissing()
	}
	watched := namespaces
	if len(watched) == 0 {
		watched = []string{metav1.NamespaceAll}
	}
	children, err := k.children(ctx, c, watched)
	if err != nil {
		return err
	}
	objects, err := k.listAll(ctx, c, k.primary, object.New[T](), watched)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o client.Object) bool {
		return op.Selects != nil && !op.Selects(client.ObjectKeyFromObject(o))
	})
	slices.SortFunc(objects, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	d := planner[T]{op: op, kinds: k, owner: apply.NewManager(op.Name), read: reader(ctx, c), namespaces: namespaces}
	d.list = func(t target, like client.Object) ([]client.Object, error) {
		opts, err := t.options()
		if err != nil {
			return nil, err
		}
		return k.listAll(ctx, c, t.gvk, like, []string{t.key.Namespace}, opts...)
	}
	busy, failed := 0, 0
	for _, x := range objects {
		o, _ := x.(T) // the list holds objects of that kind
		seen := newSnapshot(k)
		for id, child := range children[client.ObjectKeyFromObject(o)] {
			seen.add(id.gvk, child, k.parentOf(child), o.GetUID())
		}
		plan := d.plan(ctx, o, seen)
		if !plan.Empty() {
			busy++
		}
		if plan.failed() {
			failed++
		}
		if _, err := fmt.Fprint(out, plan); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("operator %s: %d of %d objects cannot be planned: see above", op.Name, failed, len(objects))
	}
	_, err = fmt.Fprintf(out, "%s: something would be done about %d of %d objects\n", op.Name, busy, len(objects))
	return err
}

// children lists the operator's applied objects, by the name of their parent.
func (k *kinds) children(
	ctx context.Context, c client.Client, namespaces []string,
) (map[types.NamespacedName]map[childID]client.Object, error) {
	all := map[types.NamespacedName]map[childID]client.Object{}
	for i, gvk := range k.owned {
		if !k.known(gvk) {
			k.unwatched.Store(gvk, notInstalled)
			continue
		}
		objects, err := k.listAll(ctx, c, gvk, k.watched[i], namespaces, client.MatchingLabels{ManagedByLabel: k.operator})
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			of := k.parentOf(o).key
			if all[of] == nil {
				all[of] = map[childID]client.Object{}
			}
			all[of][childID{gvk, client.ObjectKeyFromObject(o)}] = o
		}
	}
	return all, nil
}

// pageSize is the maximum number of objects in one response.
const pageSize = 500

func (k *kinds) listAll(
	ctx context.Context, c client.Client, gvk schema.GroupVersionKind, like client.Object, namespaces []string,
	opts ...client.ListOption,
) ([]client.Object, error) {
	newList, err := lists(k.scheme, gvk, like)
	if err != nil {
		return nil, err
	}
	if !k.namespaced(gvk) { // otherwise each would be listed once per namespace
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []client.Object
	for _, namespace := range namespaces {
		for next := ""; ; {
			list := newList()
			page := append(slices.Clip(opts), client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
			if err := c.List(ctx, list, page...); err != nil {
				return nil, fmt.Errorf("listing objects of kind %s: %w", gvk.Kind, err)
			}
			err := meta.EachListItem(list, func(item runtime.Object) error {
				if o, ok := item.(client.Object); ok {
					all = append(all, o)
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("reading the list of kind %s: %w", gvk.Kind, err)
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return all, nil
}

// reader returns a function that reads single objects.
func reader(ctx context.Context, c client.Client) func(childID, client.Object) (client.Object, error) {
	return func(id childID, like client.Object) (client.Object, error) {
		o := object.Empty(like)
		err := c.Get(ctx, id.key, o)
		switch {
		case err == nil:
			return o, nil
		case unknownKind(err):
			return nil, kindNotInstalled(id.gvk, notInstalled)
		case apierrors.IsNotFound(err):
			return nil, nil
		default:
			return nil, fmt.Errorf("reading %s: %w", id, err)
		}
	}
}
