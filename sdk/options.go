package sdk

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// ApplyOption configures one [Apply].
type ApplyOption func(*desired.Child)

// HoldBack neither creates nor updates the child in this reconcile, for the given reason: an error of [Wait], [Invalid] or
// [Ref]. The reason becomes the reason of p.Object, as if Reconcile had returned the error. The rest of the plan is carried
// out, except for children that wait for this one with [After] or [AfterCreated].
func HoldBack(reason error) ApplyOption { return func(s *desired.Child) { s.HeldBack = reason } }

// CreateOnly creates the child once and never updates it, as for generated credentials.
func CreateOnly() ApplyOption { return func(s *desired.Child) { s.CreateOnly = true } }

// After holds the child back, neither creating nor updating it, until these children are ready.
func After(children ...AnyChild) ApplyOption {
	return func(s *desired.Child) {
		for _, c := range children {
			s.After = append(s.After, c.planned())
		}
	}
}

// AfterCreated holds the child back, neither creating nor updating it, until each of these exists as a child of p.Object. A
// child does not exist if its creation failed or if a conflicting object has its name. Use it for a child that refers to
// another by name. Unlike [After] it does not wait for readiness.
func AfterCreated(children ...AnyChild) ApplyOption {
	return func(s *desired.Child) {
		for _, c := range children {
			s.AfterCreated = append(s.AfterCreated, c.planned())
		}
	}
}

// Unmanaged leaves a field to other field managers; see [apply.Unmanaged].
func Unmanaged(path string) ApplyOption {
	return func(s *desired.Child) {
		s.Options = append(s.Options, apply.Unmanaged(path))
		s.HasUnmanaged = true
	}
}

// Zero enforces the zero value of a field; see [apply.Zero].
func Zero(path string) ApplyOption {
	return func(s *desired.Child) { s.Options = append(s.Options, apply.Zero(path)) }
}

// RemoveForeign removes content of other field managers from the child, which an apply does not: remove gets a copy of the
// observed child, deletes what the child must not have, and returns the paths of the deleted content; none means that there
// is none. It must be a function of the child alone, must leave the fields that [Apply] was given, and must find nothing in
// its own result. A removal is one request for exactly the observed version. It precedes the repair of other drift, and
// follows the apply of a changed child, which removes the fields that are no longer intended.
// Content that admission adds again in the same request stays. The kind must not be [MetadataOnly], and C is the type that
// was given to [Apply].
func RemoveForeign[C client.Object](remove func(live C) (paths []string)) ApplyOption {
	return func(s *desired.Child) {
		s.RemoveForeign = func(o client.Object) []string {
			c, ok := o.(C)
			if !ok {
				return nil
			}
			return remove(c)
		}
	}
}

// ReadyWhen replaces the readiness check of the child. The message describes the missing condition.
func ReadyWhen[C client.Object](ready func(live C) (ok bool, message string)) ApplyOption {
	return func(s *desired.Child) {
		s.Ready = func(o client.Object) (bool, string) {
			c, ok := o.(C)
			if !ok { // only metadata is watched
				c = object.CopyAs(o, object.New[C]())
			}
			return ready(c)
		}
	}
}

// HoldUntil adds a tracking finalizer to the child until recorded is true. Deletion of the child then completes only after
// the operator has recorded the child's existence or its end in p.Object.Status. The finalizer is removed by one request
// that changes nothing else. If the child leaves the plan, the finalizer is removed after the status of that reconcile was
// stored. The Job controller of Kubernetes counts its pods in the same way.
func HoldUntil(recorded bool) ApplyOption {
	return func(s *desired.Child) { s.Hold = !recorded }
}

// Retain makes the child outlive p.Object, however p.Object is deleted and whether or not the operator is running. The child
// gets the owner label instead of an owner reference, so that garbage collection ignores it. It is not pruned when it leaves
// the plan. A later object may adopt it with [AdoptIf]. The option may be added and removed at any time: its state in the
// last reconcile before the deletion of p.Object applies. The child must be in the namespace of p.Object.
func Retain() ApplyOption { return func(s *desired.Child) { s.Retain = true } }

// ImmutablePolicy selects the reaction to a change that the API server rejects because a field is immutable.
type ImmutablePolicy int

const (
	// Stall makes p.Object Stalled with reason ImmutableField. It is the default.
	Stall ImmutablePolicy = iota
	// Recreate deletes the child and creates it again.
	Recreate
	// RecreateOrphan is Recreate with orphan deletion: objects that the child controls remain, such as the pods of a
	// StatefulSet.
	RecreateOrphan
)

// OnImmutable sets the reaction to a change of an immutable field. A child is deleted for this reason only after the API
// server confirmed, in a dry run, that it would accept the new one.
func OnImmutable(policy ImmutablePolicy) ApplyOption {
	return func(s *desired.Child) { s.Immutable = desired.ImmutablePolicy(policy) }
}

// Adopt takes over an existing object of the child's name that has no controller. The object gets the controller reference
// and the fields of the child; its other fields remain. From then on it is deleted like any other child. With [CreateOnly]
// it gets the reference alone. An object that has a controller, or that is being deleted, is a conflict, as without this
// option. An object with an immutable field that would change is a conflict too, independent of [OnImmutable]. Before an
// adoption p.Object is read again from the API server, and no adoption happens if p.Object is being deleted.
func Adopt() ApplyOption { return AdoptIf(func(client.Object) bool { return true }) }

// AdoptIf is [Adopt] limited to objects for which the function returns true, such as the children of a predecessor. The last
// of several options wins.
func AdoptIf(may func(client.Object) bool) ApplyOption {
	return func(s *desired.Child) { s.MayAdopt = may }
}

// OnAdopt calls f when an object is about to be adopted (see [AdoptIf]), with the existing object and the desired one. f may
// change the labels and annotations of the desired object, for example to mark it as adopted. The next reconcile does not
// adopt the object again: it must apply the same metadata, which it finds on [Live].
func OnAdopt(f func(existing, desired client.Object)) ApplyOption {
	return func(s *desired.Child) { s.OnAdopt = f }
}

// ConflictReason sets the reason of the Ready condition for a conflicting object: one of the child's name that p.Object does
// not control. The default is ResourceConflict.
func ConflictReason(reason string) ApplyOption {
	return func(s *desired.Child) { s.ConflictReason = reason }
}
