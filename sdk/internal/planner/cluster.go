package planner

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
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Print prints the plan for each object in the cluster. It reads all objects with list requests and writes nothing.
func Print(
	ctx context.Context, op *desired.Definition, cfg *rest.Config, namespaces []string, out io.Writer,
) error {
	k, err := offlineKinds(op)
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: k.Scheme})
	if err != nil {
		return fmt.Errorf("creating the client of operator %s: %w", op.Name, err)
	}
	if k.Mapper = c.RESTMapper(); !k.Known(k.Primary) {
		return k.PrimaryMissingError()
	}
	watched := namespaces
	if len(watched) == 0 {
		watched = []string{metav1.NamespaceAll}
	}
	children, err := listChildren(ctx, k, c, watched)
	if err != nil {
		return err
	}
	objects, err := listSelected(ctx, op, k, c, watched)
	if err != nil {
		return err
	}
	d := Planner{op: op, kinds: k, owner: apply.NewFieldManager(op.Name), read: reader(ctx, c), namespaces: namespaces}
	d.list = func(t reference.Target, like client.Object) ([]client.Object, error) {
		opts, err := t.Options()
		if err != nil {
			return nil, err
		}
		return listAll(ctx, k, c, t.GVK, like, []string{t.Key.Namespace}, opts...)
	}
	busy, failed := 0, 0
	for _, x := range objects {
		o, _ := x.(desired.Object) // the list holds objects of that kind
		seen := observed.NewSnapshot(k)
		for id, child := range children[client.ObjectKeyFromObject(o)] {
			seen.Add(id.GVK, child, k.ParentOf(child), o.GetUID())
		}
		plan := d.plan(ctx, o, seen)
		if !plan.Empty() {
			busy++
		}
		if plan.Failed() {
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

// listSelected lists the objects that the operator reconciles, by namespace and name.
func listSelected(
	ctx context.Context, op *desired.Definition, k *observed.Kinds, c client.Client, namespaces []string,
) ([]client.Object, error) {
	objects, err := listAll(ctx, k, c, k.Primary, op.New(), namespaces)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o client.Object) bool {
		return !op.Selects(client.ObjectKeyFromObject(o))
	})
	slices.SortFunc(objects, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects, nil
}

// listChildren lists the operator's applied objects, by the name of their parent.
func listChildren(
	ctx context.Context, k *observed.Kinds, c client.Client, namespaces []string,
) (map[types.NamespacedName]map[object.ID]client.Object, error) {
	all := map[types.NamespacedName]map[object.ID]client.Object{}
	for i, gvk := range k.Owned {
		if !k.Known(gvk) {
			k.MarkMissing(gvk)
			continue
		}
		label := client.MatchingLabels{observed.ManagedByLabel: k.Operator}
		objects, err := listAll(ctx, k, c, gvk, k.Watched[i], namespaces, label)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			of := k.ParentOf(o).Key
			if all[of] == nil {
				all[of] = map[object.ID]client.Object{}
			}
			all[of][object.ID{GVK: gvk, Key: client.ObjectKeyFromObject(o)}] = o
		}
	}
	return all, nil
}

// pageSize is the maximum number of objects in one response.
const pageSize = 500

func listAll(
	ctx context.Context, k *observed.Kinds, c client.Client, gvk schema.GroupVersionKind, like client.Object,
	namespaces []string, opts ...client.ListOption,
) ([]client.Object, error) {
	newList, err := reference.NewList(k.Scheme, gvk, like)
	if err != nil {
		return nil, err
	}
	if !k.Namespaced(gvk) { // otherwise each would be listed once per namespace
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
func reader(ctx context.Context, c client.Client) func(object.ID, client.Object) (client.Object, error) {
	return func(id object.ID, like client.Object) (client.Object, error) {
		o := object.Empty(like)
		err := c.Get(ctx, id.Key, o)
		switch {
		case err == nil:
			return o, nil
		case retry.IsUnknownKind(err):
			return nil, retry.KindNotInstalled(id.GVK, retry.NotInstalled)
		case apierrors.IsNotFound(err):
			return nil, nil
		default:
			return nil, fmt.Errorf("reading %s: %w", id, err)
		}
	}
}
