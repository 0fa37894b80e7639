// Package planner plans the writes of a reconcile without carrying them out.
//
// It serves sdk.Dry, the flag --dry-run and the dry-run annotation. They differ in the source of the observed state: given
// objects, one list of the cluster, and the operator's caches. The package never writes, and plans no reconcile of an object
// that is being deleted beyond its clean-up.
package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Plan is the result of planning a reconcile without carrying it out. Equal plans have equal text, so that they can be
// compared, stored in a file and read. See sdk.Dry.
type Plan struct {
	// Object is the object with the status that the reconcile would store. The children count as if the API server had
	// stored each write as it was sent.
	Object desired.Object
	// Actions are the writes of children in their order, and the held-back ones.
	Actions []Action
	// Err is the error of Reconcile, or the failure of a child. Nil if there is none.
	Err error

	ObjectName string // "Kind namespace/name"
}

// Action is one planned action on one object.
type Action struct {
	// Verb is "create", "update", "release" (remove the tracking finalizer), "delete", "orphan", "hold back" (with the reason
	// in Reason), or, for the object itself, "add the finalizer to", "remove the finalizer from" and "clean up".
	Verb string
	// Object is "Kind namespace/name", without the namespace for a child in the namespace of the object, and for a
	// cluster-scoped one.
	Object string
	// Fields are the lines of [apply.Intent.Diff].
	Fields []string
	// Reason is the reason of a held-back action.
	Reason string
}

// String returns the step in one line, without its fields.
func (s Action) String() string {
	if s.Reason != "" {
		return s.Verb + " " + s.Object + ": " + s.Reason
	}
	return s.Verb + " " + s.Object
}

// Empty reports whether the plan has no write except that of the status.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Actions, func(s Action) bool { return s.Verb != holdBack })
}

// String returns the text of the plan: the object, a line for each step with its fields below, and the Ready condition.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.ObjectName)
	for _, s := range p.Actions {
		fmt.Fprintf(&b, "  %s\n", s)
		for _, field := range s.Fields {
			fmt.Fprintf(&b, "      %s\n", field)
		}
	}
	switch {
	case p.Failed():
		fmt.Fprintf(&b, "  the pass would fail: %v\n", p.Err)
	case len(p.Actions) == 0:
		fmt.Fprintln(&b, "  nothing would be done")
	}
	if c := conditions.Get(p.Object, conditions.Ready); c != nil {
		fmt.Fprintf(&b, "  Ready=%s (%s)", c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&b, ": %s", c.Message)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// Failed reports whether the plan has a failure that neither waiting nor an edit of the object can solve.
func (p *Plan) Failed() bool {
	class := retry.Classify(p.Err)
	return class != retry.ClassNone && class < retry.ClassWait || class == retry.ClassPanic
}

const holdBack = "hold back"
