package reference

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Reader gives a pass access to the references and records the used ones.
type Reader struct {
	// Lookup returns the objects of the target, in any order. The objects are shared and read-only.
	Lookup func(user types.NamespacedName, t Target, like client.Object) ([]client.Object, error)
	// Read reads the object in full into an object of its type, and reports whether it exists.
	Read func(ctx context.Context, id object.ID, into client.Object) (bool, error)
	Key  types.NamespacedName
	Used map[Target]struct{}
}

// All returns the objects of the target in the form of like, and records its use.
func (r *Reader) All(t Target, like client.Object) ([]client.Object, error) {
	t.Form = FormOf(like)
	if r.Used == nil {
		r.Used = map[Target]struct{}{}
	}
	r.Used[t] = struct{}{}
	return r.Lookup(r.Key, t, like)
}

// One returns the object, or nil if it does not exist.
func (r *Reader) One(id object.ID, like client.Object) (client.Object, error) {
	found, err := r.All(Target{ID: id}, like)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// ReadFull returns a function that reads objects in full.
func ReadFull(c client.Reader) func(context.Context, object.ID, client.Object) (bool, error) {
	return func(ctx context.Context, id object.ID, into client.Object) (bool, error) {
		err := c.Get(ctx, id.Key, into)
		return err == nil, client.IgnoreNotFound(err)
	}
}
