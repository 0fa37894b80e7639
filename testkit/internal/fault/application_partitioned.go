package fault

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

const partitioned = "application-partitioned"

var applicationPartitioned = Fault{
	Name: partitioned,
	Long: true,
	Doc: "The node of a pod and the other nodes do not reach each other for a while. All of them reach the API server. A pod " +
		"that needs one of another node is not Ready.",
	Plan: func(in *Input) []Plan {
		return atPods(in, partitioned, "was on a node that did not reach the other nodes for a while", partition)
	},
}

// partition separates the node of a pod from all others, waits until a pod of the run is not Ready and the status of the
// custom resources is true, ends the fault and waits for the state of the baseline. The pod that is not Ready may be another
// one. Without one the run does not count: the operator has had nothing to report.
func partition(r Run, step int, t target) {
	live, plane, ok := breakable(r, t)
	if !ok {
		return
	}
	pods := readyPods(r)
	before := len(r.Changes())
	end, err := plane.Partition(r.Space().Context(), keyOf(live))
	if err != nil {
		r.MarkUntried(err.Error())
		return
	}
	r.LogFault("the node of " + nameOf(live) + " does not reach the other nodes")
	r.Operator().ResetIdleTime()
	limit := probeTime(pods)
	noticed := r.AwaitFor(limit, func() bool {
		return slices.ContainsFunc(r.Changes()[before:], func(c history.Change) bool { return becameUnready(pods, c) })
	})
	goesOn := noticed && r.AwaitTrueStatus(step)
	if !restore(r, end) {
		return
	}
	if !noticed {
		r.Discard(fmt.Sprintf("no pod of the run became not Ready within %s: none needs a pod of another node to be Ready", limit))
		return
	}
	r.LogFault("the nodes reach each other again")
	if goesOn {
		r.Await(func() bool {
			return !slices.ContainsFunc(pods, func(pod history.Change) bool {
				now, is := byUID(r, pod)
				return is && !isReady(podOf(now))
			})
		})
		r.Converge(step)
	}
}

// becameUnready reports whether one of the pods is not Ready any more. One that is being deleted does not count: it ends.
func becameUnready(pods []history.Change, c history.Change) bool {
	isOne := func(pod history.Change) bool { return pod.Object.GetUID() == c.Object.GetUID() }
	return slices.ContainsFunc(pods, isOne) && c.Object.GetDeletionTimestamp() == nil && !isReady(podOf(c))
}

// readyPods returns the Ready pods of a run. Pods that are never restarted are left out: they may be tasks, which end.
func readyPods(r Run) []history.Change {
	return slices.DeleteFunc(r.CurrentObjects(), func(c history.Change) bool {
		if c.Resource.Group != "" || c.Resource.Resource != "pods" {
			return true
		}
		pod := podOf(c)
		return !isReady(pod) || pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	})
}

// probeTime returns the time after which a failing readiness probe of a pod has made it not Ready. A pod without one is not
// Ready if a process ends.
func probeTime(pods []history.Change) time.Duration {
	const (
		margin = 10 * time.Second // for a kubelet of a busy machine, and for a process that ends
		most   = time.Minute
	)
	longest := int64(0)
	for _, c := range pods {
		spec := podOf(c).Spec
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			if p := container.ReadinessProbe; p != nil {
				longest = max(longest, int64(p.PeriodSeconds)*int64(p.FailureThreshold)+int64(p.TimeoutSeconds))
			}
		}
	}
	return min(time.Duration(longest)*time.Second+margin, most)
}
