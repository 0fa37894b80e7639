package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

func TestNextTermination(t *testing.T) {
	t.Parallel()
	// failedOnce is the outcome for the first pod that ended by itself.
	failedOnce := func(last string) outcome {
		return outcome{
			Want: policy.Stop, Counted: true, After: time.Second, Phase: backingOff, Reason: "BackingOff",
			Starts: 1, Failures: 1, Next: time.Second, Last: last, History: 1,
		}
	}
	// deletedOnce is the outcome for a deleted pod: the next one starts as soon as it is gone.
	deletedOnce := func(last string) outcome {
		return outcome{
			Want: policy.Stop, Counted: true, Phase: pending, Reason: "Terminating",
			Starts: 1, Last: last, History: 1,
		}
	}
	nodeLost := deletedOnce("NodeLost")
	nodeLost.After = time.Minute // the grace period and lostAfter
	unknownExit := pod("a", ended(corev1.PodFailed, "ContainerStatusUnknown", 137))
	check(t, map[string]nextCase{
		"failed": {
			reason: "a pod that failed is replaced after the first wait", ic: withRunningPod(),
			pod: pod("a", ended(corev1.PodFailed, "Error", 3)), want: failedOnce("Error 3"),
		},
		"succeeded": {
			reason: "a successful exit is an end like any other", ic: withRunningPod(),
			pod: pod("a", ended(corev1.PodSucceeded, "Completed", 0)), want: failedOnce("Completed 0"),
		},
		"out of memory": {
			reason: "the reason of the container is reported", ic: withRunningPod(),
			pod: pod("a", ended(corev1.PodFailed, "OOMKilled", 137)), want: failedOnce("OOMKilled 137"),
		},
		"failed without a container": {
			reason: "a pod may fail before it has containers", ic: withRunningPod(),
			pod: pod("a", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Status.ContainerStatuses = nil
			}), want: failedOnce("Error"),
		},
		"unknown exit": {
			reason: "an exit code made up by the node is not reported", ic: withRunningPod(),
			pod: unknownExit, want: failedOnce("Error"),
		},
		"evicted": {
			reason: "a node under pressure evicts again, so the next pod waits", ic: withRunningPod(),
			pod: pod("a", failedByKubelet("Evicted", "The node was low on resource: memory.")), want: failedOnce("Evicted"),
		},
		"preempted by the node": {
			reason: "a node makes room for a critical pod", ic: withRunningPod(),
			pod: pod("a", failedByKubelet("Preempting", "")), want: failedOnce("Preempted"),
		},
		"node shut down": {
			reason: "a kubelet that shuts down calls its pods terminated", ic: withRunningPod(),
			pod:  pod("a", failedByKubelet("Terminated", "Pod was terminated in response to imminent node shutdown.")),
			want: failedOnce("NodeShutdown"),
		},
		"not admitted": {
			reason: "a node that rejects the pod has a reason of its own", ic: withRunningPod(),
			pod: pod("a", failedByKubelet("OutOfcpu", "")), want: failedOnce("OutOfcpu"),
		},
		"unusable reason": {
			reason: "a reason must be a word, or the API server would reject the condition", ic: withRunningPod(),
			pod: pod("a", failedByKubelet("something went wrong", "")), want: failedOnce("Error"),
		},
		"deleted": {
			reason: "a deleted pod is replaced at once", ic: withRunningPod(),
			pod: pod("a", deleted(0)), want: deletedOnce("Deleted"),
		},
		"deleted while stopping": {
			reason: "the exit code of a stopped container is no reason", ic: withRunningPod(),
			pod: pod("a", deleted(0), ended(corev1.PodFailed, "Error", 143)), want: deletedOnce("Deleted"),
		},
		"deleted after its end": {
			reason: "the later deletion of an evicted pod did not end it", ic: withRunningPod(),
			pod: pod("a", deleted(0), failedByKubelet("Evicted", "")), want: deletedOnce("Evicted"),
		},
		"drained": {
			reason: "kubectl drain asks for an eviction", ic: withRunningPod(),
			pod: pod("a", deleted(0), disrupted("EvictionByEvictionAPI")), want: deletedOnce("Drained"),
		},
		"preempted": {
			reason: "the scheduler makes room", ic: withRunningPod(),
			pod: pod("a", deleted(0), disrupted("PreemptionByScheduler")), want: deletedOnce("Preempted"),
		},
		"node unreachable": {
			reason: "the control plane takes the pod from a node that does not answer", ic: withRunningPod(),
			pod: pod("a", deleted(0), disrupted("DeletionByTaintManager")), want: nodeLost,
		},
		"node gone": {
			reason: "the control plane collects a pod whose node is gone", ic: withRunningPod(),
			pod: pod("a", deleted(0), disrupted("DeletionByPodGC")), want: nodeLost,
		},
		"failed before it was counted": {
			reason: "a pod that dies at once is counted and recorded in one go", ic: newContainer(),
			pod: pod("a", failedByKubelet("OutOfcpu", "")),
			want: outcome{
				Want: policy.Stop, Counted: false, After: time.Second, Phase: backingOff, Reason: "BackingOff",
				Starts: 1, Failures: 1, Next: time.Second, Last: "OutOfcpu", History: 1,
			},
		},
		"gone": {
			reason: "the cache may lag behind; the termination is recorded when the successor exists",
			ic:     withRunningPod(),
			want:   outcome{Want: policy.Run, Phase: pending, Reason: "Starting", Starts: 1},
		},
	})
}
