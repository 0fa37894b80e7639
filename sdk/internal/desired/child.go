package desired

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// ImmutablePolicy selects the reaction to a rejected change of an immutable field. Its values are those of
// sdk.ImmutablePolicy.
type ImmutablePolicy int

// The values of [ImmutablePolicy].
const (
	Stall ImmutablePolicy = iota
	Recreate
	RecreateOrphan
)

// Child is one child in the plan of a reconcile: its desired state, its observed state and the result.
type Child struct {
	Desired        client.Object
	Content        func(context.Context) (client.Object, error) // returns the object to send; nil if that is desired
	Options        []apply.Option
	After          []*Child
	AfterCreated   []*Child
	Ready          func(client.Object) (bool, string)
	Immutable      ImmutablePolicy
	ConflictReason string
	CreateOnly     bool
	HasUnmanaged   bool                     // a field is left to other field managers
	MayAdopt       func(client.Object) bool // selects the unowned objects to adopt; nil adopts none
	OnAdopt        func(existing, desired client.Object)
	Hold           bool  // it has a tracking finalizer and is not recorded yet
	Retain         bool  // it outlives its parent
	HeldBack       error // the reason for leaving it unchanged in this reconcile

	RemoveForeign func(client.Object) []string // removes content of other managers and returns its paths; nil keeps all

	GVK            schema.GroupVersionKind
	Key            types.NamespacedName
	Home           string        // namespace of the parent; empty for a cluster-scoped one
	CrossNamespace bool          // an owner reference to its parent is not possible
	Live           client.Object // nil if it did not exist
	Terminating    bool
	readinessCache ReadinessCache

	Executed        bool          // it was carried out, or failed with an error of its own
	Stored          client.Object // the present object, nil if it does not exist
	IsReady         bool
	NotReadyMessage string // the missing condition for readiness; set if IsReady is false
	message         string // the same without the child's name
	Failed          bool   // it will not become ready by itself
	Err             error  // a failure that concerns this child alone
}

// ID returns the identity of the child.
func (s *Child) ID() object.ID { return object.ID{GVK: s.GVK, Key: s.Key} }

// RetryKey returns the key for the retry state of the intent.
func (s *Child) RetryKey(i *apply.Intent) retry.Key {
	a := retry.Key{Child: s.ID(), Digest: i.Digest()}
	if s.Live != nil {
		a.UID = s.Live.GetUID()
	}
	return a
}

// CreationKey returns the key for the creations of the child with the intent.
func (s *Child) CreationKey(i *apply.Intent) retry.Key {
	return retry.Key{Child: s.ID(), Digest: i.Digest(), Creation: true}
}

// String returns "Kind namespace/name", without the namespace if it is that of the parent.
func (s *Child) String() string { return s.ID().From(s.Home) }

// BlockingChild returns the first child that this one waits for, or nil.
func (s *Child) BlockingChild() *Child {
	for _, other := range s.After {
		if !other.IsReady {
			return other
		}
	}
	for _, other := range s.AfterCreated {
		if other.Stored == nil {
			return other
		}
	}
	return nil
}

// AssessReadiness sets the readiness of the stored object.
func (s *Child) AssessReadiness() {
	switch {
	case s.Err != nil:
		return
	case s.Terminating:
		s.NotReadyMessage = fmt.Sprintf("%s is being deleted", s)
		return
	case s.Stored == nil:
		s.NotReadyMessage = fmt.Sprintf("%s does not exist yet", s)
		return
	}
	ready := s.Ready
	if ready == nil {
		ready = s.kstatusReadiness
	}
	if s.IsReady, s.message = ready(s.Stored); !s.IsReady {
		s.NotReadyMessage = fmt.Sprintf("%s: %s", s, s.message)
	}
}

// Status returns the child's entry for a report. Its message is as long as that of a condition at most.
func (s *Child) Status() conditions.Child {
	c := conditions.Child{
		Kind: s.GVK.Kind, Namespace: s.Key.Namespace, Name: s.Key.Name, Ready: s.IsReady, Reason: "Progressing",
		Message: cmp.Or(s.message, s.NotReadyMessage),
	}
	if s.Stored != nil {
		c.UID = s.Stored.GetUID()
	}
	switch problem := retry.MostSevere(s.Err); {
	case problem != nil:
		c.Reason = problem.Reason
		c.Message = problem.Message
	case s.IsReady:
		c.Reason = conditions.Ready
		c.Message = ""
	case s.Failed:
		c.Reason = "Failed"
	}
	c.Message = conditions.Truncate(c.Message) // it may contain all that admission has to say
	return c
}

// IsAdoptable reports whether a conflicting object may be adopted.
func (s *Child) IsAdoptable(o client.Object) bool {
	return s.MayAdopt != nil && metav1.GetControllerOf(o) == nil && o.GetDeletionTimestamp().IsZero() && s.MayAdopt(o)
}

// Conflict converts an ownership error into a problem with the operator's reason for it.
func (s *Child) Conflict(err error) error {
	if _, ok := errors.AsType[*apply.OwnershipError](err); !ok {
		return err
	}
	reason := cmp.Or(s.ConflictReason, "ResourceConflict")
	return &retry.ReconcileError{Class: retry.ClassConflict, Reason: reason, Message: err.Error()}
}

// Foreign returns the paths of the content that RemoveForeign removes, and the live object without it. Both are nil if there
// is none. They are also nil while the object has the fields of an earlier intent: an apply removes those first.
func (s *Child) Foreign(i *apply.Intent) (paths []string, clean client.Object) {
	if s.RemoveForeign == nil || s.Live == nil || s.CreateOnly {
		return nil, nil
	}
	if digest := s.Live.GetAnnotations()[apply.DigestAnnotation]; digest != "" && digest != i.Digest() {
		return nil, nil
	}
	clean = object.Copy(s.Live)
	if paths = s.RemoveForeign(clean); len(paths) == 0 {
		return nil, nil
	}
	return paths, clean
}

// IsReleasable reports whether the child has the tracking finalizer and no longer needs it.
func (s *Child) IsReleasable(finalizer string) bool {
	return !s.Hold && controllerutil.ContainsFinalizer(s.Live, finalizer)
}

// LacksFinalizer reports whether an existing child lacks its tracking finalizer.
func (s *Child) LacksFinalizer(finalizer string) bool {
	return s.Hold && s.Live != nil && !s.Terminating && !controllerutil.ContainsFinalizer(s.Live, finalizer)
}

// Intent returns the intent of a planned child, including its ownership metadata.
func (s *Child) Intent(ctx context.Context, k *observed.Kinds, parent client.Object) (*apply.Intent, error) {
	owner := apply.ControlledBy(parent)
	if s.CrossNamespace || s.Retain {
		owner = apply.LabeledBy(parent)
	}
	opts := append([]apply.Option{
		owner, apply.WithLabel(observed.ManagedByLabel, k.Operator), apply.ExclusiveMaps(k.ExclusiveMaps[s.GVK]...),
	}, s.Options...)
	if s.Hold {
		opts = append(opts, apply.WithFinalizer(k.Finalizer))
	}
	if s.Content != nil {
		opts = append(opts, apply.ContentFrom(func() (client.Object, error) { return s.Content(ctx) }))
	}
	return apply.NewIntent(s.Desired, k.Scheme, opts...)
}

// WorstChildError returns the most severe failure of a single child, with the earliest of the retry times that the failures
// of all children request.
func WorstChildError(plan []*Child) error {
	var worst *retry.ReconcileError
	var earliest time.Duration
	for _, s := range plan {
		err := retry.MostSevere(s.Err)
		if err == nil {
			continue
		}
		if err.After > 0 && (earliest == 0 || err.After < earliest) {
			earliest = err.After
		}
		if worst == nil || err.Class > worst.Class {
			worst = err
		}
	}
	if worst == nil {
		return nil
	}
	return worst.Within(earliest)
}
