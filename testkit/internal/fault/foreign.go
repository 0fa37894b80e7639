package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

var foreignCreated = Fault{
	Name: "foreign-created",
	Long: true,
	Doc:  "An object of another owner has the name of a child before the operator creates the child.",
	Plan: func(in *Input) []Plan {
		return atForeign(in, false, func(place, first int, c baseline.Child) Plan {
			return Plan{
				Name: "foreign-created/" + c.Name, place: place,
				Summary: fmt.Sprintf("%s of another owner existed before the operator created its own", c.Name),
				Before: func(r Run, at int) {
					if at == first {
						r.PlaceForeign(c)
					}
				},
			}
		})
	},
}

var foreignEdited = Fault{
	Name: "foreign-edited",
	Long: true,
	Doc:  "A child is replaced by an object of another owner while the operator is down, and the next step follows.",
	Plan: func(in *Input) []Plan {
		return atForeign(in, true, func(place, first int, c baseline.Child) Plan {
			return Plan{
				Name: "foreign-edited/" + c.Name, place: place,
				Summary: fmt.Sprintf("%s was replaced by an object of another owner while the operator was down", c.Name),
				AfterIdle: func(r Run, at int) {
					if at == first {
						replaceByForeign(r, c)
						r.Start()
						r.Converge(first)
					}
				},
			}
		})
	},
}

var foreignDeleted = Fault{
	Name: "foreign-deleted",
	Long: true,
	Doc:  "A child is replaced by an object of another owner right before the custom resources are deleted.",
	Plan: func(in *Input) []Plan {
		return atForeign(in, true, func(place, _ int, c baseline.Child) Plan {
			last := len(in.Steps)
			p := Plan{
				Name: "foreign-deleted/" + c.Name, place: place,
				Summary: fmt.Sprintf("%s was replaced by an object of another owner, and the custom resources were deleted, "+
					"while the operator was down", c.Name),
				Before: func(r Run, at int) {
					if at == last {
						replaceByForeign(r, c)
					}
				},
				During: func(r Run, at int) {
					if at == last {
						r.Start()
					}
				},
			}
			if last == 0 || !hasChild(in.Children[min(last, len(in.Children))-1], c.Name) {
				p.Skip = "the child does not exist when the custom resources are deleted"
			}
			return p
		})
	},
}

// groupForeign is the group of which a short exploration tries one plan.
const groupForeign = "foreign"

// atForeign returns the plans for each child whose name another owner can take. first is the first step at which the child
// exists. Only the fault that replaces no child tells why one is skipped.
func atForeign(in *Input, replaces bool, plan func(place, first int, c baseline.Child) Plan) []Plan {
	var plans []Plan
	required := true // one plan of each of the faults
	tried := map[string]bool{}
	for step, children := range in.Children {
		if step >= len(in.Steps) {
			break
		}
		for _, c := range children {
			if tried[c.Name] {
				continue
			}
			tried[c.Name] = true
			if why := whyNotForeign(in, c); why != "" {
				if !replaces {
					plans = append(plans, skipped(groupForeign, c.Name, why, len(tried)))
				}
				continue
			}
			if replaces && c.Kind.Resource == "namespaces" {
				continue // the other children are deleted with it
			}
			p := plan(len(tried), step, c)
			p.Fault, _, _ = strings.Cut(p.Name, "/")
			p.ShortGroup = groupForeign
			p.ExtraQuiet = true
			p.SkipCounts = true
			p.Required = required && p.Skip == ""
			required = required && !p.Required
			plans = append(plans, p)
		}
	}
	return plans
}

// whyNotForeign returns why no other owner can take the name of a child, or "".
func whyNotForeign(in *Input, c baseline.Child) string {
	_, name, _ := strings.Cut(c.Name, "/")
	switch {
	case strings.Contains(name, "~"), strings.Contains(name, "$UID"):
		return "a generated name is not taken by another owner"
	case c.Kind.Resource == "namespaces" && !c.HasOwner(), c.Kind.Resource == "customresourcedefinitions":
		return "owners share objects of this kind on purpose"
	case slices.Contains(in.Irreplaceable, c.Name), isExternallyManaged(in, c.Name):
		return "the operator leaves it to others, or cannot make it again as it was"
	default:
		return ""
	}
}

func hasChild(children []baseline.Child, name string) bool {
	return slices.ContainsFunc(children, func(c baseline.Child) bool { return c.Name == name })
}

// replaceByForeign kills the operator, deletes a child and creates an object of another owner with its name.
func replaceByForeign(r Run, c baseline.Child) {
	takeDown(r)
	deleteChild(r, c)
	if !r.IsUntried() {
		r.PlaceForeign(c)
	}
}
