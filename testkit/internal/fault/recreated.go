package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

var recreated = Fault{
	Name: "recreated",
	Long: true,
	Doc:  "An object that the scenario created is deleted and created again with the same content.",
	Plan: func(in *Input) []Plan { return atInputs(in, planRecreated) },
}

var recreatedDown = Fault{
	Name: "recreated-down",
	Long: true,
	Doc:  "An object that the scenario created is deleted and created again while the operator is down.",
	Plan: func(in *Input) []Plan { return atInputs(in, planRecreatedDown) },
}

var recreatedLater = Fault{
	Name: "recreated-later",
	Long: true,
	Doc:  "An object that the scenario created is deleted, and created again when the operator is idle.",
	Plan: func(in *Input) []Plan { return atInputs(in, planRecreatedLater) },
}

func planRecreated(step int, input baseline.Child) Plan {
	return planRecreation("recreated", "", step, input, func(r Run) { recreate(r, input, nil) })
}

func planRecreatedLater(step int, input baseline.Child) Plan {
	return planRecreation("recreated-later", " when the operator was idle", step, input, func(r Run) {
		recreate(r, input, func(history.Change) {
			r.AwaitWrites()
			r.WaitIdle()
		})
	})
}

func planRecreatedDown(step int, input baseline.Child) Plan {
	return planRecreation("recreated-down", " while the operator was down", step, input, func(r Run) {
		takeDown(r)
		recreate(r, input, nil)
		r.Start()
	})
}

// planRecreation returns a plan that recreates an object after a step. when completes the summary.
func planRecreation(fault, when string, step int, input baseline.Child, do func(r Run)) Plan {
	return Plan{
		Name: fault + "/" + input.Name, Fault: fault, ShortGroup: "recreated",
		Summary: fmt.Sprintf("%s was deleted, and created again with the same content%s", input.Name, when),
		AfterIdle: func(r Run, at int) {
			if at == step {
				do(r)
				if !r.IsUntried() {
					r.Converge(step)
				}
			}
		},
	}
}

// atInputs returns the plans for each object of the scenario, at the last step at which it exists.
func atInputs(in *Input, plan func(step int, input baseline.Child) Plan) []Plan {
	var plans []Plan
	kinds := map[string]bool{}
	for place, name := range slices.Sorted(maps.Keys(in.UserObjects)) {
		for step := range slices.Backward(in.Steps) {
			if step >= len(in.Checkpoints) {
				continue
			}
			if _, exists := in.Checkpoints[step][name]; !exists {
				continue
			}
			p := plan(step, baseline.Child{Name: name})
			p.Step = step + 1
			p.place = place
			p.ExtraQuiet = true
			p.SkipCounts = true
			p.Skip = whyNotRecreated(in, name)
			if p.Skip == "" && p.Fault == "recreated-down" && hasFinalizer(in.Checkpoints[step][name]) {
				p.Skip = "its finalizer keeps the object for as long as the operator is down"
			}
			kind, _, _ := strings.Cut(name, "/")
			// An operator watches each kind by code of its own.
			p.Required = p.Fault == "recreated" && p.Skip == "" && !kinds[kind]
			kinds[kind] = kinds[kind] || p.Required
			plans = append(plans, p)
			break
		}
	}
	return plans
}

// hasFinalizer reports whether an object of a state has a finalizer.
func hasFinalizer(object any) bool {
	content, _ := object.(map[string]any)
	finalizers, _, _ := unstructured.NestedSlice(content, "metadata", "finalizers")
	return len(finalizers) > 0
}

// whyNotRecreated returns why an object of the scenario cannot be recreated with the same effect, or "".
func whyNotRecreated(in *Input, name string) string {
	kind, _, _ := strings.Cut(name, "/")
	switch {
	case slices.Contains([]string{"namespaces", "customresourcedefinitions.apiextensions.k8s.io"}, kind):
		return "its deletion deletes other objects, too"
	case slices.Contains([]string{"pods", "persistentvolumeclaims"}, kind):
		return "its deletion takes as long as it is used"
	case len(in.Irreplaceable) > 0:
		return "the operator cannot make some objects again as they were"
	default:
		return ""
	}
}

// recreate deletes an object of the scenario and creates it again in the role of the user. If meanwhile is set, it is called
// between.
func recreate(r Run, input baseline.Child, meanwhile func(live history.Change)) {
	live, ok := r.Child(input)
	if !ok || !r.CreatedByUser()[live.Object.GetUID()] {
		r.MarkUntried("the scenario did not create the object")
		return
	}
	again, err := asCreated(r, live)
	if err != nil {
		r.MarkUntried(err.Error())
		return
	}
	s := r.Space()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := s.Client.Delete(s.Context(), live.Object.DeepCopy(), background); err != nil {
		r.MarkUntried("the object cannot be deleted: " + err.Error())
		return
	}
	r.LogFault(fmt.Sprintf("a user deletes %s", nameOf(live)))
	r.Operator().ResetIdleTime()
	if !awaitGone(r, live.Object) {
		return // the comparison reports it
	}
	if meanwhile != nil {
		meanwhile(live)
	}
	if err := again(); err != nil {
		r.Discard("the object cannot be created again: " + err.Error())
		return
	}
	r.LogFault(fmt.Sprintf("a user creates %s again", nameOf(live)))
	r.Operator().ResetIdleTime()
	r.AwaitWrites()
}

// asCreated returns a function that creates an object again as the user last wrote it: by the same manager, and by an apply
// if it was an apply. Later applies would not remove the fields of a creation.
func asCreated(r Run, live history.Change) (func() error, error) {
	sent, applied := r.SentByUser(live.Object.GetUID())
	if sent == nil {
		return nil, fmt.Errorf("the user did not write the whole %s, or the operator added to it", nameOf(live))
	}
	u := &unstructured.Unstructured{Object: sent}
	u.SetNamespace(live.Object.GetNamespace())
	u.SetName(live.Object.GetName())
	u.SetUID("")
	u.SetResourceVersion("")
	u.SetManagedFields(nil)
	u.SetFinalizers(nil)
	unstructured.RemoveNestedField(u.Object, "metadata", "generation")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "status")
	manager := managerOf(r, live)
	s := r.Space()
	if applied {
		config := client.ApplyConfigurationFromUnstructured(u)
		return func() error {
			return s.Client.Apply(s.Context(), config, client.FieldOwner(manager), client.ForceOwnership)
		}, nil
	}
	return func() error { return s.Client.Create(s.Context(), u, client.FieldOwner(manager)) }, nil
}

// managerOf returns the field manager that created an object.
func managerOf(r Run, live history.Change) string {
	for _, c := range r.Changes() {
		if fields := c.Object.GetManagedFields(); c.Object.GetUID() == live.Object.GetUID() && len(fields) > 0 {
			return fields[0].Manager
		}
	}
	return "a-user"
}

// awaitGone waits until an object is gone, or the timeout of a step is over.
func awaitGone(r Run, u *unstructured.Unstructured) bool {
	s := r.Space()
	for began := time.Now(); time.Since(began) < s.Timeout; {
		there := &metav1.PartialObjectMetadata{}
		there.SetGroupVersionKind(u.GroupVersionKind())
		err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(u), there)
		if apierrors.IsNotFound(err) || err == nil && there.GetUID() != u.GetUID() {
			return true
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.Context().Done():
			return false
		}
	}
	return false
}
