package fault

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

var driftAll = Fault{
	Name: "drift-all",
	Long: true,
	Doc:  "All children are deleted at once.",
	Plan: func(in *Input) []Plan {
		step, children := mostChildren(in)
		if len(children) == 0 {
			return nil
		}
		if len(children) == 1 {
			return []Plan{skipped("drift-all", children[0].Name, "it is the only child: drift-deleted deletes it", 0)}
		}
		return []Plan{{
			Name: "drift-all@" + slug(in.Steps[step]), Fault: "drift-all", Step: step + 1, ExtraQuiet: true, SkipCounts: true,
			Summary: fmt.Sprintf("all children were deleted by hand at once after step %q", in.Steps[step]),
			AfterIdle: func(r Run, at int) {
				if at == step {
					deleteChildren(r, children)
					r.Converge(step)
				}
			},
		}}
	},
}

// mostChildren returns the last of the steps after which most children exist that a user may delete, and these children.
func mostChildren(in *Input) (step int, most []baseline.Child) {
	for i, children := range in.Children {
		if i >= len(in.Steps) {
			break
		}
		may := slices.DeleteFunc(slices.Clone(children), func(c baseline.Child) bool {
			return !mayDelete(in, i, c)
		})
		if len(may) > 0 && len(may) >= len(most) {
			step, most = i, may
		}
	}
	return step, most
}

// mayDelete reports whether a user may delete the child after a step and expect it back at once.
func mayDelete(in *Input, step int, c baseline.Child) bool {
	// A claim stays for as long as a pod uses it, and the contents of a Namespace go with it.
	stays := c.Kind.String() == "persistentvolumeclaims" || c.Kind.String() == "namespaces"
	is, _ := isRecreated(in, step, c)
	return is && !stays
}

// deleteChildren deletes children in the role of a user, and waits until the history shows all deletions. The operator
// learns of the first when the last is done.
func deleteChildren(r Run, children []baseline.Child) {
	s := r.Space()
	for _, c := range children {
		r.Operator().Hold(c.Kind, nil)
	}
	defer func() {
		for _, c := range children {
			r.Operator().Release(c.Kind)
		}
	}()
	var deleted []history.Change
	for _, c := range children {
		live, ok := r.Child(c)
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if ok && s.Client.Delete(s.Context(), live.Object.DeepCopy(), background) == nil {
			deleted = append(deleted, live)
		}
	}
	if len(deleted) == 0 {
		return
	}
	r.LogFault(fmt.Sprintf("a user deletes %d objects at once, the first being %s", len(deleted), nameOf(deleted[0])))
	r.Operator().ResetIdleTime()
	r.Await(func() bool {
		_, exists := find(r, func(c history.Change) bool {
			return c.Object.GetDeletionTimestamp() == nil && slices.ContainsFunc(deleted, func(d history.Change) bool {
				return d.Object.GetUID() == c.Object.GetUID()
			})
		})
		return !exists
	})
}
