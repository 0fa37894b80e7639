package oracle

import (
	"fmt"
	"slices"
	"strconv"

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

// PrematureConditions finds objects of the kinds that became Ready before one of their workloads was ready for the first
// time. The operator cannot have observed its readiness. Checked are controlled Deployments, StatefulSets, DaemonSets,
// Pods and custom resources. Operators need not wait for other kinds. ours selects the operator's states, see [Statuses].
func PrematureConditions(
	changes []history.Change, kinds map[intercept.GroupResource]bool, ours func(history.Change) bool,
) []report.Violation {
	children := workloadsOf(changes)
	var found []report.Violation
	last := map[types.UID]bool{}
	for _, c := range changes {
		if c.Type == watch.Deleted || !kinds[GroupResourceOf(c)] {
			continue
		}
		uid := c.Object.GetUID()
		was := last[uid]
		ready, ok := readiness.Condition(c.Object, readiness.Ready)
		last[uid] = ok && ready.Status == metav1.ConditionTrue
		if was || !last[uid] || !ours(c) {
			continue
		}
		at := version(c.Object)
		for _, child := range children {
			if child.owner != uid || child.created > at || child.deleted != 0 && child.deleted <= at || child.ready <= at {
				continue
			}
			found = append(found, report.Violation{
				Oracle: Status, Detail: timeline.Describe(c.Object),
				Message: fmt.Sprintf("%s said Ready, and its %s was not, and had never been: %s",
					timeline.Name(c.Object), child.name, child.missing),
			})
			break
		}
	}
	return found
}

// workload is a controlled object, with the resource versions of its creation, its first readiness and its deletion.
// deleted is 0 if it exists.
type workload struct {
	owner                   types.UID
	name, missing           string // missing is why it was not ready at first
	created, ready, deleted uint64
}

// workloadsOf returns the workloads that became ready.
func workloadsOf(changes []history.Change) []*workload {
	all, order := map[types.UID]*workload{}, []types.UID{}
	for _, c := range changes {
		owner, uid := metav1.GetControllerOf(c.Object), c.Object.GetUID()
		if owner == nil || !hasReadiness(c.Object) {
			continue
		}
		at, w := version(c.Object), all[uid]
		if w == nil {
			w = &workload{owner: owner.UID, name: timeline.Name(c.Object), created: at}
			all[uid] = w
			order = append(order, uid)
		}
		switch missing := readiness.Missing(c.Object); {
		case c.Type == watch.Deleted:
			w.deleted = at
		case missing == "" && w.ready == 0:
			w.ready = at
		case w.ready == 0:
			w.missing = missing
		}
	}
	var found []*workload
	for _, uid := range order {
		if w := all[uid]; w.ready != 0 {
			found = append(found, w)
		}
	}
	return found
}

func hasReadiness(u *unstructured.Unstructured) bool {
	if readiness.IsCustom(u) {
		_, says := readiness.Condition(u, readiness.Ready)
		return says
	}
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "Pod"}, u.GetKind())
}

// version returns the resource version of a state. The API server has one counter for all kinds.
func version(u *unstructured.Unstructured) uint64 {
	n, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
