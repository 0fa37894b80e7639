package sdk

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Child is one object in the plan of a reconcile, of kind C.
type Child[C client.Object] struct {
	entry  *desired.Child
	before client.Object // nil if it did not exist
	live   C             // the applied object, until Live replaces it by a copy of before
	copied bool
}

// Live returns a copy of the child as it was observed before this reconcile, or an empty object of its kind if it did not
// exist. It never returns nil.
func (c *Child[C]) Live() C {
	if !c.copied {
		c.live = object.CopyAs(c.before, c.live)
		c.copied = true
	}
	return c.live
}

// Exists reports whether the child existed before this reconcile and was not being deleted.
func (c *Child[C]) Exists() bool { return c.entry.Live != nil && !c.entry.Terminating }

func (c *Child[C]) planned() *desired.Child { return c.entry }

// AnyChild is any [Child].
type AnyChild interface{ planned() *desired.Child }

// Apply records the desired state of a child. Fields that are set are enforced, other fields are not (the rules are those of
// [apply.NewIntent]). The pass owns the object afterwards. Its namespace defaults to that of p.Object if its kind is
// namespaced. p.Object becomes the controller of the child. Where Kubernetes allows no owner reference, the child gets the
// owner label and p.Object gets a finalizer. The child is deleted with p.Object, and when a later reconcile does not apply
// it. A conflicting object of that name is never written (see [Adopt] and [ConflictReason]).
func Apply[T Object, C client.Object](p *Pass[T], child C, opts ...ApplyOption) *Child[C] {
	s := &desired.Child{Desired: child}
	for _, opt := range opts {
		opt(s)
	}
	p.record.Add(s)
	return &Child[C]{entry: s, before: s.Live, live: child}
}

// ForceDelete deletes a terminating child with a grace period of zero, without waiting for the confirmation of its node or
// another controller. The child must not be applied in the same reconcile. Its processes may continue to run: use it only if
// they are known to have stopped.
func ForceDelete[T Object](p *Pass[T], child client.Object) {
	s := &desired.Child{Desired: child}
	p.record.Observe(s)
	if p.record.ForceDeletes == nil {
		p.record.ForceDeletes = map[object.ID]bool{}
	}
	p.record.ForceDeletes[s.ID()] = true
}
