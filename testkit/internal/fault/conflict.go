package fault

import (
	"fmt"
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

var conflict = Fault{
	Name: "conflict",
	Doc:  "Another manager changes an annotation of the object right before a write.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		seen := map[intercept.GroupResource]bool{}
		for i, t := range in.Calls {
			if !t.Writes {
				continue
			}
			p := planConflict(i, t)
			isChild := t.Subresource == "" && !in.UserObjects[t.Kind.String()+"/"+t.Object]
			if p.Skip == "" && isChild && !seen[t.Kind] {
				p.Required = true // operators write each kind of child by code of its own
				seen[t.Kind] = true
			}
			plans = append(plans, p)
		}
		return plans
	},
}

func planConflict(i int, t baseline.Target) Plan {
	why := skipReason(t)
	switch {
	case why != "":
		return skipped("conflict", t.ID(), why, i)
	case t.Creates, t.Verb == "create", t.Object == "":
		return skipped("conflict", t.ID(), "there is no object yet that another manager could change", i)
	case t.Verb == "delete":
		return skipped("conflict", t.ID(), "a deletion is not computed from a version", i)
	}
	return Plan{
		Name: "conflict/" + t.ID(), Fault: "conflict", Target: t.ID(), Step: t.Step, place: i, ExtraQuiet: true,
		Summary: fmt.Sprintf("another manager changed an annotation of the object right before the %s", t),
		OnRequest: func(r Run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
			mutateExternally(r, c, t.ID())
			return nil, nil
		},
	}
}

// ChangedAnnotation is the annotation that another manager sets in fault "conflict".
const ChangedAnnotation = state.Mark + "touched"

// mutateExternally changes the object of a request in the role of another manager. The value differs for each target, so
// that the object gets a new version each time.
func mutateExternally(r Run, c *intercept.Call, target string) {
	current, ok := find(r, func(h history.Change) bool {
		return groupResourceOf(h) == intercept.GroupResourceOf(c.Request) &&
			h.Object.GetNamespace() == c.Namespace && h.Object.GetName() == c.Name
	})
	if !ok {
		return
	}
	if err := annotate(r, current.Object, ChangedAnnotation, "before "+target); err != nil {
		return // the object was deleted
	}
	r.NoteChange(current.Object.GetUID())
	r.LogFault("another manager sets annotation " + ChangedAnnotation + " of " + nameOf(current) + ", right before the request")
}
