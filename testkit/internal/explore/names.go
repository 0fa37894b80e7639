package explore

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file determines canonical names and states.

func (v *view) names(changes []history.Change) *state.NameMap {
	return state.NewNameMap(v.space.Namespace, changes, v.x.generated, v.x.began)
}

// state returns the state of the namespace.
func (v *view) state() state.State {
	changes := v.log.Changes()
	names := v.names(changes)
	s := state.Renumber(state.Snapshot(names, v.log.CurrentObjects(), v.detail()))
	v.externals.addTo(s, names)
	return s
}

// detail returns the parts of an object that are compared: objects that the operator or the scenario wrote, and their
// status if the operator writes the status of the kind.
func (v *view) detail() func(history.Change) state.Detail {
	theirs, ours := written(v.operator.Calls()), written(v.user.Calls())
	status := map[intercept.GroupResource]bool{}
	for _, c := range v.operator.Calls() {
		if c.Subresource == "status" && c.IsWrite() {
			status[intercept.GroupResourceOf(c.Request)] = true
		}
	}
	if v.baseline != nil {
		status = v.baseline.Status
	}
	return func(c history.Change) state.Detail {
		uid := c.Object.GetUID()
		switch {
		case c.Resource.Resource == "events", !theirs[uid] && !ours[uid]:
			return state.None
		case status[groupResourceOf(c)] && v.skipsStatus():
			return state.ConditionsOnly
		case status[groupResourceOf(c)]:
			return state.FullStatus
		default:
			return state.Spec
		}
	}
}

// name returns the name of an object in messages.
func (v *view) name(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

// targetOf returns the target of a request, without its number.
func (v *view) targetOf(c *intercept.Call) baseline.Target {
	return baseline.Target{
		Verb: c.Verb, Kind: intercept.GroupResourceOf(c.Request), Subresource: c.Subresource, Object: v.groupOf(c),
		Writes: c.IsWrite(), Versioned: isVersioned(c),
	}
}

// groupOf returns the canonical group of the object's name, as far as it is known when the request is sent. As in package
// state, that of an object in a further namespace of the run begins with the namespace.
func (v *view) groupOf(c *intercept.Call) string {
	m := metadataOf(c.Sent)
	name := c.Name
	v.mu.Lock()
	if m.GenerateName != "" && m.Name == "" {
		if name != "" {
			v.generatedNames[name] = m.GenerateName + "~"
		}
		name = m.GenerateName + "~"
	} else if made, ok := v.generatedNames[name]; ok {
		name = made
	}
	v.mu.Unlock()
	if prefix, ok := v.x.generated.Prefix(intercept.GroupResourceOf(c.Request).String(), name, v.x.began); ok {
		name = prefix + "~"
	}
	group := v.withoutGenerated(name, m.OwnerReferences)
	if group != "" && c.Namespace != v.space.Namespace && v.log.Has(c.Namespace) {
		group = v.withoutGenerated(c.Namespace, nil) + ":" + group
	}
	return group
}

// withoutGenerated returns a name without the namespace and the UIDs of objects, which differ between runs. An owner may
// be newer than the history.
func (v *view) withoutGenerated(name string, owners []metav1.OwnerReference) string {
	if len(name) > 8 { // length of the shortest form of a UID
		for _, o := range owners {
			name = state.ReplaceUID(name, o.UID, "$UID")
		}
		for _, c := range v.log.Changes() {
			name = state.ReplaceUID(name, c.Object.GetUID(), "$UID")
		}
	}
	return strings.ReplaceAll(name, v.space.Namespace, "$NAMESPACE")
}

// alignTargets sets the number of requests of each target to the baseline's before a step, because the faults of a combined
// plan cause more requests. The state is that of the baseline.
func (v *view) alignTargets(step int) {
	if !v.plan.IsCombined() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.targetCounts)
	for _, t := range v.baseline.Calls {
		if t.Step <= step {
			v.targetCounts[t.Group()] = max(v.targetCounts[t.Group()], t.Number)
		}
	}
}

// countTarget returns the number of the request in its group.
func (v *view) countTarget(t baseline.Target) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.targetCounts[t.Group()]++
	return v.targetCounts[t.Group()]
}
