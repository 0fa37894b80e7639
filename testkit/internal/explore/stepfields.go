package explore

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file determines which fields of a child belong to a step of the scenario, such as an annotation that a user adds.
// When the child is deleted by hand, they are gone with it, and the operator need not restore them.

// stepFields returns the canonical fields of the existing children that have the value that a step wrote, by the canonical
// name of the child. If a step removed a field, it belongs to the step as well.
func (v *view) stepFields() map[string][]state.Field {
	changes := v.log.Changes()
	names, made, versions := v.names(changes), created(v.operator.Calls()), versionsOf(v.user.Calls())
	last, fields := map[types.UID]*unstructured.Unstructured{}, map[types.UID]map[string]state.Field{}
	for _, c := range changes {
		uid := c.Object.GetUID()
		before := last[uid]
		last[uid] = c.Object
		if before == nil || !made[uid] {
			continue
		}
		if fields[uid] == nil {
			fields[uid] = map[string]state.Field{}
		}
		for _, f := range names.ChangedFields(before, c.Object) {
			if versions[uid][c.Object.GetResourceVersion()] {
				fields[uid][f.String()] = f
			} else {
				delete(fields[uid], f.String()) // the operator's value
			}
		}
	}
	all := map[string][]state.Field{}
	for _, c := range v.log.CurrentObjects() {
		for _, f := range fields[c.Object.GetUID()] {
			name := names.Of(c.Object.GetUID())
			all[name] = append(all[name], f)
		}
	}
	return all
}

// versionsOf returns the versions of objects that calls wrote.
func versionsOf(calls []intercept.Call) map[types.UID]map[string]bool {
	all := map[types.UID]map[string]bool{}
	for _, c := range calls {
		if uid := types.UID(c.UID); isEffectiveWrite(c) && uid != "" {
			if all[uid] == nil {
				all[uid] = map[string]bool{}
			}
			all[uid][c.Version] = true
		}
	}
	return all
}

func isEffectiveWrite(c intercept.Call) bool {
	return c.IsWrite() && c.Reached && c.Code < http.StatusMultipleChoices && c.Subresource == "" && !c.DryRun
}

// withoutStepFields removes the fields of children that a step wrote in the baseline, and that no step wrote in this run
// since the child was deleted by hand.
func (r *run) withoutStepFields(step int, want, got state.State) (state.State, state.State) {
	if step >= len(r.baseline.StepFields) || len(r.baseline.StepFields[step]) == 0 {
		return want, got
	}
	deleted := map[string]bool{}
	for _, c := range r.user.Calls() {
		if c.Verb == "delete" && c.Reached && c.Code < http.StatusMultipleChoices && !c.DryRun {
			deleted[intercept.GroupResourceOf(c.Request).String()+"/"+c.Name] = true
		}
	}
	if len(deleted) == 0 {
		return want, got
	}
	names, now, gone := r.names(r.log.Changes()), r.stepFields(), map[string][]state.Field{}
	for _, c := range r.log.CurrentObjects() {
		name := names.Of(c.Object.GetUID())
		if !deleted[groupResourceOf(c).String()+"/"+c.Object.GetName()] && !strings.Contains(name, "~") {
			continue
		}
		for _, f := range r.baseline.StepFields[step][name] {
			if !slices.ContainsFunc(now[name], f.Equal) {
				gone[name] = append(gone[name], f)
			}
		}
	}
	return state.Without(want, gone), state.Without(got, gone)
}
