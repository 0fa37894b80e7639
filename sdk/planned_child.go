package sdk

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// plannedChild is one child in the plan of a reconcile: its desired state, its observed state and the result.
type plannedChild struct {
	desired        client.Object
	content        func(context.Context) (client.Object, error) // returns the object to send; nil if that is desired
	intent         []apply.Option
	after          []*plannedChild
	afterCreated   []*plannedChild
	ready          func(client.Object) (bool, string)
	immutable      ImmutablePolicy
	conflictReason string
	createOnly     bool
	hasUnmanaged   bool                     // a field is left to other field managers
	mayAdopt       func(client.Object) bool // selects the unowned objects to adopt; nil adopts none
	hold           bool                     // it has a tracking finalizer and is not recorded yet
	retain         bool                     // it outlives its parent
	heldBack       error                    // the reason for leaving it unchanged in this reconcile

	gvk            schema.GroupVersionKind
	key            types.NamespacedName
	crossNamespace bool          // an owner reference to its parent is not possible
	live           client.Object // nil if it did not exist
	terminating    bool
	readinessCache map[types.UID]readiness

	executed bool          // it was carried out, or failed with an error of its own
	stored   client.Object // the present object, nil if it does not exist
	isReady  bool
	waits    string // the missing condition for readiness
	message  string // the same without the child's name
	failed   bool   // it will not become ready by itself
	err      error  // a failure that concerns this child alone
}

func (s *plannedChild) id() childID { return childID{s.gvk, s.key} }

// retryKey returns the key for the retry state of the intent.
func (s *plannedChild) retryKey(i *apply.Intent) retryKey {
	a := retryKey{child: s.id(), digest: i.Digest()}
	if s.live != nil {
		a.uid = s.live.GetUID()
	}
	return a
}

func (s *plannedChild) String() string {
	if s.crossNamespace && s.key.Namespace != "" {
		return s.gvk.Kind + " " + s.key.String()
	}
	return s.id().String()
}

// blocked returns the first child that this one waits for, or nil.
func (s *plannedChild) blocked() *plannedChild {
	for _, other := range s.after {
		if !other.isReady {
			return other
		}
	}
	for _, other := range s.afterCreated {
		if other.stored == nil {
			return other
		}
	}
	return nil
}

// assessReadiness sets the readiness of the stored object.
func (s *plannedChild) assessReadiness() {
	switch {
	case s.err != nil:
		return
	case s.terminating:
		s.waits = fmt.Sprintf("%s is being deleted", s)
		return
	case s.stored == nil:
		s.waits = fmt.Sprintf("%s does not exist yet", s)
		return
	}
	ready := s.ready
	if ready == nil {
		ready = s.kstatusReadiness
	}
	if s.isReady, s.message = ready(s.stored); !s.isReady {
		s.waits = fmt.Sprintf("%s: %s", s, s.message)
	}
}

// childStatus returns the child's entry for a report.
func (s *plannedChild) childStatus() conditions.Child {
	c := conditions.Child{
		Kind: s.gvk.Kind, Namespace: s.key.Namespace, Name: s.key.Name, Ready: s.isReady, Reason: "Progressing",
		Message: cmp.Or(s.message, s.waits),
	}
	if s.stored != nil {
		c.UID = s.stored.GetUID()
	}
	switch problem := mostSevere(s.err); {
	case problem != nil:
		c.Reason = problem.reason
		c.Message = problem.message
	case s.isReady:
		c.Reason = conditions.Ready
		c.Message = ""
	case s.failed:
		c.Reason = "Failed"
	}
	return c
}
