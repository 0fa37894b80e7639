package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// This file has the pods of a run: those of the operator, and those of its workloads.

// nodeLock keeps a run that loses nodes alone. Every run holds it.
type nodeLock struct {
	sync.RWMutex

	lost atomic.Bool // faults of pods affect nodes; known when the first run has opened its namespace
}

// nodeLocks has the locks of all explorations of this process, by the address of the API server.
var nodeLocks = struct {
	sync.Mutex
	byHost map[string]*nodeLock
}{byHost: map[string]*nodeLock{}}

func nodeLockOf(host string) *nodeLock {
	nodeLocks.Lock()
	defer nodeLocks.Unlock()
	if nodeLocks.byHost[host] == nil {
		nodeLocks.byHost[host] = &nodeLock{}
	}
	return nodeLocks.byHost[host]
}

// holdNodes waits until no run loses nodes or, if this one does, until it is the only one. The result ends that.
func (r *run) holdNodes() (release func()) {
	r.holdsNodes = r.x.nodes.lost.Load()
	switch {
	case !r.holdsNodes:
		return func() {}
	case slices.ContainsFunc(r.plan.Parts(), func(p *fault.Plan) bool { return p.LosesNode }):
		r.x.nodes.Lock()
		return r.x.nodes.Unlock
	default:
		r.x.nodes.RLock()
		return r.x.nodes.RUnlock
	}
}

// discoverNodes notes whether faults of pods affect nodes. A run that began before this was known holds the lock from now
// on.
func (r *run) discoverNodes() {
	if r.space.Pods == nil || !r.space.Pods.LosesNode() {
		return
	}
	r.x.nodes.lost.Store(true)
	if !r.holdsNodes {
		r.x.nodes.RLock()
		r.space.Cleanup(r.x.nodes.RUnlock)
	}
}

// startQuietPeriod returns the time without a change after which nothing is expected of the pods: 0, unless one is starting.
func (r *run) startQuietPeriod() time.Duration {
	const part = 2 // the timeout has to be longer
	limit := r.startTimeout()
	if limit == 0 || !slices.ContainsFunc(r.log.CurrentObjects(), isStarting) {
		return 0
	}
	return min(limit, r.x.Timeout/part)
}

// startTimeout returns the time without a change after which a pod does not start any more.
func (r *run) startTimeout() time.Duration {
	if r.space.Pods == nil {
		return 0
	}
	return r.space.Pods.StartTimeout()
}

// isStarting reports whether an object is a pod that may become Ready. Without a node, it may wait for one that returns.
func isStarting(c history.Change) bool {
	if groupResourceOf(c).String() != "pods" || c.Object.GetDeletionTimestamp() != nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(c.Object.Object, "status", "phase")
	ready, ok := readiness.Condition(c.Object, readiness.Ready)
	isReady := ok && ready.Status == metav1.ConditionTrue
	return !isReady && (phase == string(corev1.PodPending) || phase == string(corev1.PodRunning))
}

// currentPods returns the places of Ready pods, in the order of their names.
func (v *view) currentPods() []baseline.Pod {
	var all []baseline.Pod
	places, byUser := v.podsByPlace(), created(v.user.Calls())
	for _, place := range slices.Sorted(maps.Keys(places)) {
		pod := places[place][0].Object
		if ready, ok := readiness.Condition(pod, "Ready"); !ok || ready.Status != metav1.ConditionTrue {
			continue
		}
		p := baseline.Pod{Name: place, Stays: byUser[pod.GetUID()]}
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		for _, c := range containers {
			if fields, ok := c.(map[string]any); ok {
				name, _, _ := unstructured.NestedString(fields, "name")
				p.Containers = append(p.Containers, name)
			}
		}
		all = append(all, p)
	}
	return all
}

// podsByPlace returns the pods that have not failed and are not being deleted, by the canonical name of the pod or, if that
// is generated, of its workload. The oldest one of a place comes first. Those of Jobs are left out: they perform a task
// once.
func (v *view) podsByPlace() map[string][]history.Change {
	names := v.names(v.log.Changes())
	current := v.log.CurrentObjects()
	byUID := make(map[types.UID]history.Change, len(current))
	for _, c := range current {
		byUID[c.Object.GetUID()] = c
	}
	places := map[string][]history.Change{}
	for _, c := range current {
		phase, _, _ := unstructured.NestedString(c.Object.Object, "status", "phase")
		if groupResourceOf(c).String() != "pods" || c.Object.GetDeletionTimestamp() != nil || phase == string(corev1.PodFailed) {
			continue
		}
		workload := workloadOf(c, byUID)
		if workload.Resource.Group == batchv1.GroupName {
			continue
		}
		place := names.Of(c.Object.GetUID())
		if ordinal := c.Object.GetLabels()[appsv1.StatefulSetPodNameLabel]; ordinal != "" && ordinal == c.Object.GetName() {
			place = "pods/" + names.Text(ordinal)
			if strings.Contains(place, "~") { // the pod has a generateName, which the API server does not use
				place = "pods/" + ordinal
			}
		} else if c.Object.GetGenerateName() != "" {
			place = names.Group(workload.Object.GetUID())
		}
		places[place] = append(places[place], c)
	}
	return places
}

// workloadOf returns the outermost controller of a built-in kind above a pod, or the pod itself without one.
func workloadOf(pod history.Change, byUID map[types.UID]history.Change) history.Change {
	object := pod
	for {
		owner := metav1.GetControllerOf(object.Object)
		if owner == nil {
			return object
		}
		next, is := byUID[owner.UID]
		if !is || readiness.IsCustom(next.Object) {
			return object
		}
		object = next
	}
}

// awaitTrueStatus waits until the operator is idle and no custom resource says Ready without a Ready pod, during a fault of
// pods. The state may differ from the baseline's. It reports whether the scenario continues.
func (r *run) awaitTrueStatus(step int) bool {
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	quiet := max(quiescence.FinalQuietPeriod, r.x.StepQuietPeriod)
	idle := r.idle.OperatorIdle()
	for {
		if r.idle.HasBeenIdle(ctx, quiet, idle) && r.readyWithoutPods(step) == nil {
			return true
		}
		select {
		case <-r.log.Changed():
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			if r.space.Context().Err() != nil {
				return false
			}
			if v := r.readyWithoutPods(step); v != nil {
				r.addViolation(v.Oracle, v.Message, v.Detail)
				return false
			}
			return true // the operator may retry for as long as the fault lasts
		}
	}
}

// readyWithoutPods returns a violation if a custom resource says Ready and none of its pods, or none of those of a workload,
// is Ready. With some Ready pods, Ready may mean that the application is available.
func (r *run) readyWithoutPods(step int) *report.Violation {
	if !r.x.oracleEnabled(oracleStatus) {
		return nil
	}
	current := r.log.CurrentObjects()
	for _, c := range current {
		ready, ok := readiness.Condition(c.Object, readiness.Ready)
		if !r.writesStatusOf(groupResourceOf(c)) || !ok || ready.Status != metav1.ConditionTrue {
			continue
		}
		unready := ""
		readyPods := false
		for _, other := range current {
			if !metav1.IsControlledBy(other.Object, c.Object) {
				continue
			}
			switch ready, is := readyPodsOf(other.Object); {
			case !is:
			case groupResourceOf(other).String() == "pods":
				readyPods = readyPods || ready
				if !ready {
					unready = r.name(other)
				}
			case !ready:
				return r.falseReady(step, c, r.name(other)+" has no Ready pod")
			}
		}
		if unready != "" && !readyPods {
			return r.falseReady(step, c, unready+" is not Ready, nor is another pod of it")
		}
	}
	return nil
}

func (r *run) falseReady(step int, c history.Change, reason string) *report.Violation {
	return r.unlessKnown(&report.Violation{
		Oracle: oracleStatus, Detail: describe(c.Object),
		Message: fmt.Sprintf("%s and a fault of a pod, %s says Ready, but %s", r.after(step), r.name(c), reason),
	})
}

// readyPodsOf reports whether a pod, or a pod of a workload, is Ready, and whether the object is one of these and should
// have pods.
func readyPodsOf(u *unstructured.Unstructured) (ready, is bool) {
	count := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, fields...)
		return n
	}
	switch u.GroupVersionKind().GroupKind().String() {
	case "Pod":
		c, _ := readiness.Condition(u, readiness.Ready)
		return c.Status == metav1.ConditionTrue, true
	case "Deployment.apps", "StatefulSet.apps", "ReplicaSet.apps":
		return count("status", "readyReplicas") > 0, count("spec", "replicas") > 0
	case "DaemonSet.apps":
		return count("status", "numberReady") > 0, count("status", "desiredNumberScheduled") > 0
	default:
		return false, false
	}
}
