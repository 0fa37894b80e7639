package life_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
)

func TestNextDeath(t *testing.T) {
	t.Parallel()
	// died is the verdict for a pod that ended by itself, the first time.
	died := func(last string) verdict {
		return verdict{
			Want: life.Stop, Counted: true, After: time.Second, Phase: backingOff, Reason: "BackingOff",
			Starts: 1, Failures: 1, Next: time.Second, Last: last, History: 1,
		}
	}
	// taken is the verdict for a pod that somebody took away: the next one starts as soon as it is gone.
	taken := func(last string) verdict {
		return verdict{
			Want: life.Stop, Counted: true, Phase: pending, Reason: "Terminating",
			Starts: 1, Last: last, History: 1,
		}
	}
	lost := taken("NodeLost")
	lost.After = time.Minute // the grace period and the patience with the node
	unsure := pod("a", ended(corev1.PodFailed, "ContainerStatusUnknown", 137))
	check(t, map[string]nextCase{
		"failed": {
			reason: "a pod that failed is replaced after the first wait", ic: settled(),
			pod: pod("a", ended(corev1.PodFailed, "Error", 3)), want: died("Error 3"),
		},
		"succeeded": {
			reason: "an immortal container has no end, not even a good one", ic: settled(),
			pod: pod("a", ended(corev1.PodSucceeded, "Completed", 0)), want: died("Completed 0"),
		},
		"out of memory": {
			reason: "the reason of the container is told", ic: settled(),
			pod: pod("a", ended(corev1.PodFailed, "OOMKilled", 137)), want: died("OOMKilled 137"),
		},
		"failed without a container": {
			reason: "a pod may fail before it has containers", ic: settled(),
			pod: pod("a", func(p *corev1.Pod) {
				p.Status.Phase, p.Status.ContainerStatuses = corev1.PodFailed, nil
			}), want: died("Error"),
		},
		"unknown exit": {
			reason: "an exit code that the node made up is not repeated", ic: settled(),
			pod: unsure, want: died("Error"),
		},
		"evicted": {
			reason: "a node under pressure evicts again, so the next pod waits", ic: settled(),
			pod: pod("a", blamed("Evicted", "The node was low on resource: memory.")), want: died("Evicted"),
		},
		"preempted by the node": {
			reason: "a node makes room for a critical pod", ic: settled(),
			pod: pod("a", blamed("Preempting", "")), want: died("Preempted"),
		},
		"node shut down": {
			reason: "a kubelet that shuts down calls its pods terminated", ic: settled(),
			pod:  pod("a", blamed("Terminated", "Pod was terminated in response to imminent node shutdown.")),
			want: died("NodeShutdown"),
		},
		"not admitted": {
			reason: "a node that refuses the pod says why in a word of its own", ic: settled(),
			pod: pod("a", blamed("OutOfcpu", "")), want: died("OutOfcpu"),
		},
		"unusable reason": {
			reason: "a reason must be a word, or the condition would be refused", ic: settled(),
			pod: pod("a", blamed("something went wrong", "")), want: died("Error"),
		},
		"deleted": {
			reason: "a pod that a person deletes is replaced at once", ic: settled(),
			pod: pod("a", deleted(0)), want: taken("Deleted"),
		},
		"deleted while stopping": {
			reason: "the exit code of a container that was told to stop is no reason", ic: settled(),
			pod: pod("a", deleted(0), ended(corev1.PodFailed, "Error", 143)), want: taken("Deleted"),
		},
		"deleted after its end": {
			reason: "whoever deletes an evicted pod did not end it", ic: settled(),
			pod: pod("a", deleted(0), blamed("Evicted", "")), want: taken("Evicted"),
		},
		"drained": {
			reason: "kubectl drain asks for an eviction", ic: settled(),
			pod: pod("a", deleted(0), disrupted("EvictionByEvictionAPI")), want: taken("Drained"),
		},
		"preempted": {
			reason: "the scheduler makes room", ic: settled(),
			pod: pod("a", deleted(0), disrupted("PreemptionByScheduler")), want: taken("Preempted"),
		},
		"node unreachable": {
			reason: "the control plane takes the pod from a node that does not answer", ic: settled(),
			pod: pod("a", deleted(0), disrupted("DeletionByTaintManager")), want: lost,
		},
		"node gone": {
			reason: "the control plane collects a pod whose node is gone", ic: settled(),
			pod: pod("a", deleted(0), disrupted("DeletionByPodGC")), want: lost,
		},
		"failed before it was counted": {
			reason: "a pod that dies at once is counted and recorded in one go", ic: fresh(),
			pod: pod("a", blamed("OutOfcpu", "")),
			want: verdict{
				Want: life.Stop, Counted: false, After: time.Second, Phase: backingOff, Reason: "BackingOff",
				Starts: 1, Failures: 1, Next: time.Second, Last: "OutOfcpu", History: 1,
			},
		},
		"gone": {
			reason: "a pod that nobody saw end may be one that the cache does not show; its successor will tell",
			ic:     settled(),
			want:   verdict{Want: life.Run, Phase: pending, Reason: "Starting", Starts: 1},
		},
	})
}
