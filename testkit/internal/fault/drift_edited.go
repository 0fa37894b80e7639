package fault

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

// maxEdits is the number of fields of a child that are changed, each in a run of its own.
const maxEdits = 4

var driftEdited = Fault{
	Name: "drift-edited",
	Doc:  "A field of a child that the operator had set is changed.",
	Plan: func(in *Input) []Plan {
		return atChildren(in, func(place, step int, c baseline.Child) []Plan {
			switch {
			case isTask(c) || in.isOldRevision(step, c):
				return nil // skipped by drift-deleted
			case in.HasGeneratedData(c):
				return []Plan{skipped("drift-edited", c.Name,
					"a Secret with something made up may be meant to be made once and never touched again", place)}
			case isExternallyManaged(in, c.Name):
				return []Plan{skipped("drift-edited", c.Name, "the operator leaves it to others", place)}
			}
			plans := []Plan{planEdit(in, place, step, c, "")}
			for i, part := range c.ManagedParts {
				if i > 0 && i < maxEdits { // the first part is that of the first field
					plans = append(plans, planEdit(in, place, step, c, part))
				}
			}
			return plans
		})
	},
}

// planEdit changes the first field of a child that the operator had set, or the first such field of one part of the object.
func planEdit(in *Input, place, step int, c baseline.Child, part string) Plan {
	name := "drift-edited/" + c.Name
	if part != "" {
		name += "/" + part
	}
	return Plan{
		Name: name, Fault: "drift-edited", Step: step + 1, place: place, ExtraQuiet: true, SkipCounts: true,
		Summary: fmt.Sprintf("a field of %s that the operator had set was changed by hand", c.Name),
		AfterIdle: func(r Run, at int) {
			if at == step && editChild(in, r, c, part) {
				r.Converge(step)
			}
		},
	}
}

// isExternallyManaged reports whether the operator does not manage an object, or a field of one, after its creation.
func isExternallyManaged(in *Input, path string) bool {
	return slices.ContainsFunc(in.ExternallyManaged, func(prefix string) bool {
		rest, ok := strings.CutPrefix(path, prefix)
		return ok && (rest == "" || rest[0] == '.')
	})
}

// editChild changes the first field of a child, or of a part of it, that the operator set and the API server allows to
// change.
func editChild(in *Input, r Run, c baseline.Child, part string) bool {
	live, ok := r.Child(c)
	if !ok {
		return false
	}
	for _, f := range OwnedFields(live.Object, r.Operator().Calls(), r.Changes()) {
		if part != "" && r.CanonicalText(f.Part()) != part || isExternallyManaged(in, c.Name+"."+r.CanonicalText(f.String())) {
			continue
		}
		text := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%s}]`, f.pointer(), f.other)
		if patch(r, live.Object, types.JSONPatchType, text, client.DryRunAll) != nil {
			continue
		}
		if patch(r, live.Object, types.JSONPatchType, text) != nil {
			continue
		}
		r.LogFault(fmt.Sprintf("another manager changes %s of %s to %s", f, nameOf(live), f.other))
		r.Operator().ResetIdleTime()
		r.AwaitWrites()
		return true
	}
	r.MarkUntried("the API server rejects the change of each field that the operator set")
	return false
}
