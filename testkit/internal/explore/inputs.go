package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file derives the inputs of the operator from a run: the objects as the scenario alone has made them.

// inputs are the objects of the scenario after a step.
type inputs struct {
	objects []input // in the order of their creation
	unknown string  // why they cannot be repeated in another namespace, or ""
}

// input is one object of the scenario. Contents have no status, no metadata of the API server, and
// [baseline.NamespacePlaceholder] instead of the namespace of the run.
type input struct {
	setup map[string]any // content after Options.Setup, or nil if a step created the object
	now   map[string]any // current content, or nil if the object was deleted
}

// writtenObject is an object that the scenario has created.
type writtenObject struct {
	uid     types.UID
	content map[string]any // without the writes of others
}

// currentInputs returns the inputs of a baseline run. What others have written to an object is not part of its content: a
// write of the scenario contributes only its difference from the version before.
func (r *run) currentInputs() inputs {
	calls := r.user.Calls()
	before, unknown := r.writtenBy(calls[:r.setupCalls])
	after, why := r.writtenBy(calls)
	in := inputs{unknown: cmp.Or(unknown, why, r.whyUnrepeatable())}
	names, existing := r.names(r.log.Changes()), map[types.UID]*unstructured.Unstructured{}
	for _, c := range r.log.CurrentObjects() {
		existing[c.Object.GetUID()] = c.Object
	}
	for _, w := range after {
		one := input{}
		u := existing[w.uid]
		if u != nil {
			one.now = r.portable(names, w.content)
		}
		if i := slices.IndexFunc(before, func(b writtenObject) bool { return b.uid == w.uid }); i >= 0 {
			one.setup = r.portable(names, before[i].content)
			in.unknown = cmp.Or(in.unknown, whyNoInput(one.setup, w))
		}
		if u != nil {
			in.unknown = cmp.Or(in.unknown, whyUnsettled(u, w), whyNoInput(one.now, w))
		}
		if one.setup != nil || one.now != nil {
			in.objects = append(in.objects, one)
		}
	}
	return in
}

// whyNoInput returns why an object has no portable content, or "".
func whyNoInput(portable map[string]any, w writtenObject) string {
	if portable != nil {
		return ""
	}
	return fmt.Sprintf("%v has a name or a UID of the run", w.content["kind"])
}

// whyUnsettled returns why an existing object does not determine what its operator makes of it, or "".
func whyUnsettled(u *unstructured.Unstructured, w writtenObject) string {
	switch {
	case u.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s %s is being deleted", u.GetKind(), u.GetName())
	case state.IsSuspended(w.content):
		return fmt.Sprintf("%s %s is suspended", u.GetKind(), u.GetName())
	default:
		return ""
	}
}

// whyUnrepeatable returns why the objects alone do not determine the state, or "".
func (r *run) whyUnrepeatable() string {
	r.externals.mu.Lock()
	services := len(r.externals.services)
	r.externals.mu.Unlock()
	if services > 0 {
		return "an external service has a state of its own"
	}
	made := created(r.user.Calls())
	r.view.mu.Lock()
	changed := slices.Sorted(maps.Keys(r.changedInStep))
	r.view.mu.Unlock()
	for _, uid := range changed {
		if !made[uid] {
			return "a step changes an object that the scenario did not create"
		}
	}
	for _, c := range r.log.CurrentObjects() {
		if c.Object.GetKind() == "Pod" && readiness.Missing(c.Object) != "" && isReported(c.Object) {
			return fmt.Sprintf("pod %s is not ready", c.Object.GetName())
		}
	}
	return ""
}

// writtenBy returns the objects that the calls created, and why the content of one is unknown, or "".
func (r *run) writtenBy(calls []intercept.Call) (all []writtenObject, unknown string) {
	states := map[types.UID][]*unstructured.Unstructured{}
	for _, c := range r.log.Changes() {
		states[c.Object.GetUID()] = append(states[c.Object.GetUID()], c.Object)
	}
	for _, c := range calls {
		uid := types.UID(c.UID)
		at := slices.IndexFunc(all, func(w writtenObject) bool { return w.uid == uid })
		isNew := c.Code == http.StatusCreated && c.Subresource == ""
		if !hasWritten(c) || !isNew && at < 0 { // see whyUnrepeatable for objects of others
			continue
		}
		next, why := r.receivedBy(c)
		last := lastBefore(states[uid], c.Version)
		switch {
		case why != "":
			unknown = why
		case isNew:
			all = append(all, writtenObject{uid: uid, content: state.Desired(next)})
		case last == nil:
			unknown = fmt.Sprintf("an earlier state of %s %s was not observed", c.Resource, c.Name)
		default:
			patch := state.MergePatch(state.Desired(last), state.Desired(next))
			all[at].content = state.ApplyMergePatch(all[at].content, patch)
		}
	}
	return all, unknown
}

// hasWritten reports whether a call has stored an object.
func hasWritten(c intercept.Call) bool {
	return c.UID != "" && !c.DryRun && c.IsWrite() && c.Verb != "delete" && c.Reached && c.Code < http.StatusMultipleChoices
}

// receivedBy returns the object that a write of the scenario has stored, or why it is unknown.
func (r *run) receivedBy(c intercept.Call) (_ *unstructured.Unstructured, why string) {
	u := &unstructured.Unstructured{}
	switch {
	case c.Subresource != "":
		return nil, fmt.Sprintf("the scenario writes %s/%s", c.Resource, c.Subresource)
	case !r.isOwn(c):
		return nil, fmt.Sprintf("the scenario writes %s %s outside of the run", c.Resource, c.Name)
	case json.Unmarshal(c.Received, u) != nil:
		return nil, fmt.Sprintf("%s %s is too large", c.Resource, c.Name)
	}
	return u, ""
}

// lastBefore returns the last state that is older than a version, or nil.
func lastBefore(states []*unstructured.Unstructured, version string) (last *unstructured.Unstructured) {
	for _, u := range states {
		if history.Older(u.GetResourceVersion(), version) {
			last = u
		}
	}
	return last
}

// portable returns a content for other namespaces, or nil if it contains a generated name or a UID.
func (v *view) portable(names *state.NameMap, content map[string]any) map[string]any {
	data, err := json.Marshal(content)
	if err != nil {
		return nil
	}
	text := strings.ReplaceAll(string(data), v.space.Namespace, baseline.NamespacePlaceholder)
	if names.Text(string(data)) != text {
		return nil
	}
	var out map[string]any
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// localized returns an object with a portable content in the namespace of the run.
func (v *view) localized(content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	_ = u.UnmarshalJSON(v.localize(content)) // it was an object before
	return u
}

// localize returns a portable content, or a part of one, in the namespace of the run.
func (v *view) localize(content map[string]any) []byte {
	data, err := json.Marshal(content)
	if err != nil {
		return nil // cannot happen: it was decoded from JSON
	}
	return []byte(strings.ReplaceAll(string(data), baseline.NamespacePlaceholder, v.space.Namespace))
}

// noteChange records that a step has changed an object.
func (r *run) noteChange(c *intercept.Call) {
	if r.stepping.Load() && hasWritten(*c) {
		r.view.mu.Lock()
		defer r.view.mu.Unlock()
		r.changedInStep[types.UID(c.UID)] = true
	}
}
