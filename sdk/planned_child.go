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

// step is one child in the plan of a pass: what was asked for, what was there, and what came of it.
type step struct {
	desired        client.Object
	fill           func(context.Context) (client.Object, error) // makes what is sent; nil if desired is
	intent         []apply.Option
	after          []*step
	onceExists     []*step
	ready          func(client.Object) (bool, string)
	immutable      ImmutablePolicy
	conflictReason string
	createOnly     bool
	disowns        bool                     // a field of it is left to others
	adopt          func(client.Object) bool // which of nobody's objects of its name is taken over; nil is none
	hold           bool                     // it is tracked and not counted yet
	kept           bool                     // it outlives its parent
	withheld       error                    // why it is left as it is in this pass

	gvk         schema.GroupVersionKind
	key         types.NamespacedName
	remote      bool          // its parent cannot be its owner
	live        client.Object // nil if there was none
	terminating bool
	known       map[types.UID]readiness

	tried   bool          // it was carried out, or refused for a reason of its own
	stored  client.Object // what exists now, nil if nothing does
	isReady bool
	waits   string // what is missing for it to be ready
	message string // the same, without its name
	failed  bool   // it will not become ready by itself
	err     error  // a failure that concerns this child alone
}

func (s *step) id() childID { return childID{s.gvk, s.key} }

// about is what a trouble with carrying out the intent is about.
func (s *step) about(i *apply.Intent) about {
	a := about{child: s.id(), digest: i.Digest()}
	if s.live != nil {
		a.uid = s.live.GetUID()
	}
	return a
}

func (s *step) String() string {
	if s.remote && s.key.Namespace != "" {
		return s.gvk.Kind + " " + s.key.String()
	}
	return s.id().String()
}

// blocked returns the first child that this one is held back for, or nil.
func (s *step) blocked() *step {
	for _, other := range s.after {
		if !other.isReady {
			return other
		}
	}
	for _, other := range s.onceExists {
		if other.stored == nil {
			return other
		}
	}
	return nil
}

// assess reads the readiness of what exists now.
func (s *step) assess() {
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
		ready = s.wellKnown
	}
	if s.isReady, s.message = ready(s.stored); !s.isReady {
		s.waits = fmt.Sprintf("%s: %s", s, s.message)
	}
}

// told is what a report says of the child.
func (s *step) told() conditions.Child {
	c := conditions.Child{
		Kind: s.gvk.Kind, Namespace: s.key.Namespace, Name: s.key.Name, Ready: s.isReady, Reason: "Progressing",
		Message: cmp.Or(s.message, s.waits),
	}
	if s.stored != nil {
		c.UID = s.stored.GetUID()
	}
	switch problem := gravest(s.err); {
	case problem != nil:
		c.Reason, c.Message = problem.reason, problem.message
	case s.isReady:
		c.Reason, c.Message = conditions.Ready, ""
	case s.failed:
		c.Reason = "Failed"
	}
	return c
}
