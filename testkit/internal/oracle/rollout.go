package oracle

import (
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// UnfinishedRollouts finds objects of the kinds whose condition Ready became True for a generation before a workload was
// rolled out that the operator itself had changed for that generation. Checked are controlled Deployments, StatefulSets and
// DaemonSets, in every stored state. A condition without an observed generation states nothing about a generation. A rollout
// that never ends, for lack of a controller, is not considered.
func UnfinishedRollouts(
	operator []intercept.Call, changes []history.Change, kinds map[intercept.GroupResource]bool,
) []report.Violation {
	rollouts := rolloutsOf(operator, changes)
	var found []report.Violation
	claimed := map[types.UID]int64{} // generation that the object was Ready for
	for _, c := range changes {
		uid, generation := c.Object.GetUID(), readyGeneration(c)
		if generation == 0 || claimed[uid] == generation || !kinds[GroupResourceOf(c)] {
			continue
		}
		claimed[uid] = generation
		at := version(c.Object)
		i := slices.IndexFunc(rollouts, func(r rollout) bool {
			return r.owner == uid && r.generation == generation && r.began < at && at < r.ended
		})
		if i >= 0 {
			found = append(found, report.Violation{
				Oracle: Status, Detail: timeline.Describe(c.Object),
				Message: fmt.Sprintf("%s said Ready for generation %d, and the operator had changed its %s, which was not rolled out",
					timeline.Name(c.Object), generation, rollouts[i].name),
			})
		}
	}
	return found
}

// readyGeneration returns the current generation if condition Ready is True for it, or 0.
func readyGeneration(c history.Change) int64 {
	ready, ok := readiness.Condition(c.Object, readiness.Ready)
	if c.Type == watch.Deleted || !ok || ready.Status != metav1.ConditionTrue ||
		ready.ObservedGeneration != c.Object.GetGeneration() {
		return 0
	}
	return ready.ObservedGeneration
}

// rollout is the rollout of a workload after a write of the operator, with the resource versions of its begin and its end.
type rollout struct {
	owner        types.UID
	generation   int64 // of the owner, at the write
	name         string
	began, ended uint64
}

// rolloutsOf returns the rollouts that ended.
func rolloutsOf(operator []intercept.Call, changes []history.Change) []rollout {
	wrote := map[string]bool{}
	for _, c := range operator {
		if c.IsWrite() && c.Subresource == "" && c.Verb != "delete" && c.Reached && c.Code == http.StatusOK {
			wrote[c.UID+"@"+c.Version] = true
		}
	}
	all := map[types.UID][]*unstructured.Unstructured{}
	for _, c := range changes {
		all[c.Object.GetUID()] = append(all[c.Object.GetUID()], c.Object)
	}
	var found []rollout
	for _, states := range all {
		owner := metav1.GetControllerOf(states[0])
		if owner == nil {
			continue
		}
		for i, u := range states[1:] {
			isNew := u.GetGeneration() > states[i].GetGeneration()
			if isNew && wrote[string(u.GetUID())+"@"+u.GetResourceVersion()] {
				found = append(found, rolloutOf(u, states[i+2:], owner.UID, all[owner.UID]))
			}
		}
	}
	return found
}

// rolloutOf returns the rollout of a state. later are the states after it, and owners those of the owner.
func rolloutOf(u *unstructured.Unstructured, later []*unstructured.Unstructured, owner types.UID,
	owners []*unstructured.Unstructured,
) rollout {
	r := rollout{owner: owner, name: timeline.Name(u), began: version(u)}
	for _, o := range owners {
		if version(o) < r.began {
			r.generation = o.GetGeneration()
		}
	}
	end := slices.IndexFunc(later, func(l *unstructured.Unstructured) bool { return isRolledOut(l, u.GetGeneration()) })
	if end >= 0 {
		r.ended = version(later[end])
	}
	return r
}

// isRolledOut reports whether a workload has as many new and ready replicas as a generation wants. Old replicas may remain.
func isRolledOut(u *unstructured.Unstructured, generation int64) bool {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, path...)
		return n
	}
	want := number("spec", "replicas")
	if u.GetGeneration() != generation || number("status", "observedGeneration") < generation {
		return false
	}
	switch u.GetKind() {
	case "Deployment":
		return number("status", "updatedReplicas") >= want && number("status", "availableReplicas") >= want
	case "StatefulSet": // the update may be limited to some replicas
		return number("status", "readyReplicas") >= want
	case "DaemonSet":
		return number("status", "numberReady") >= number("status", "desiredNumberScheduled")
	default:
		return false
	}
}
