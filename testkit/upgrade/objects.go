package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// Objects are the objects of a kind as a client of one version reads them, by namespace and name.
type Objects map[string]*unstructured.Unstructured

// Read returns all objects of a kind in one version.
func Read(ctx context.Context, c client.Reader, gvk apischema.GroupVersionKind) (Objects, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	list.SetKind(gvk.Kind + "List")
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the objects of %s: %w", gvk, err)
	}
	all := Objects{}
	for i := range list.Items {
		all[client.ObjectKeyFromObject(&list.Items[i]).String()] = &list.Items[i]
	}
	return all, nil
}

// Lost compares the objects with later ones in the same version. It returns a line for each field that is lost, that has
// another value, or that the specification did not have: the name of the object, the path, and both values. These fields are
// not compared: resourceVersion, generation and managedFields, values of observedGeneration and lastTransitionTime, the
// annotation of package sdk/conversion, and those at the paths in mayChange or below.
func (o Objects) Lost(now Objects, mayChange ...string) []string {
	var lost []string
	for _, name := range sortedKeys(o) {
		was, is := o[name], now[name]
		switch {
		case is == nil:
			lost = append(lost, name+": the object was deleted")
			continue
		case was.GetUID() != is.GetUID():
			lost = append(lost, name+": the object was deleted and created again")
			continue
		}
		for _, change := range schema.Diff(withoutBookkeeping(was), withoutBookkeeping(is)) {
			if !isPermitted(change, mayChange) {
				lost = append(lost, name+": "+change.String())
			}
		}
	}
	return lost
}

// withoutBookkeeping returns a copy without the fields that every write changes, and without the record of the conversion.
func withoutBookkeeping(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	annotations := o.GetAnnotations()
	if delete(annotations, "homeostat.dev/conversion"); len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	return o
}

// isPermitted reports whether a change loses nothing.
func isPermitted(c schema.Change, mayChange []string) bool {
	path := c.Path.String()
	if slices.ContainsFunc(mayChange, func(p string) bool {
		rest, below := strings.CutPrefix(path, p)
		return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}) {
		return true
	}
	if root := c.Path[0].Name; root != "metadata" && root != "status" {
		return false
	}
	last := c.Path[len(c.Path)-1].Name
	return c.From == schema.Absent ||
		c.To != schema.Absent && (last == "observedGeneration" || last == "lastTransitionTime")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
