package policy_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

func TestNextPodState(t *testing.T) {
	t.Parallel()
	runningWith := func(phase v1alpha1.Phase, reason string) outcome {
		return outcome{Want: policy.Run, Counted: true, Phase: phase, Reason: reason, Starts: 1}
	}
	pendingWith := func(reason string) outcome { return runningWith(pending, reason) }
	unscheduled := pod("a", func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = nil
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes fit",
		}}
	})
	unbound := pod("a", func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	})
	unready := pod("a", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false })
	unreachable := pod("a", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	outdated := pod("a", func(p *corev1.Pod) {
		p.Generation = 2
		p.Status.ObservedGeneration = 1
	})
	upToDate := pod("a", func(p *corev1.Pod) {
		p.Generation = 2
		p.Status.ObservedGeneration = 2
	})
	crashed := pod("a", ended(corev1.PodRunning, "Error", 1))
	waiting := func(reason, message string) *corev1.Pod { return pod("a", waitingFor(reason, message)) }
	crashLoop := runningWith(backingOff, "CrashLoopBackOff")
	check(t, map[string]nextCase{
		"new":         {"the scheduler has not seen it", withRunningPod(), unbound, pendingWith("Starting")},
		"no node":     {"it fits on no node", withRunningPod(), unscheduled, pendingWith("Unschedulable")},
		"creating":    {"the node creates it", withRunningPod(), waiting("ContainerCreating", ""), pendingWith("Starting")},
		"first pull":  {"one failure", withRunningPod(), waiting("ErrImagePull", "rpc 1"), pendingWith("ImagePullBackOff")},
		"next pulls":  {"one failure", withRunningPod(), waiting("ImagePullBackOff", ""), pendingWith("ImagePullBackOff")},
		"bad image":   {"it is invalid", withRunningPod(), waiting("InvalidImageName", ""), pendingWith("InvalidImageName")},
		"never pull":  {"it is not there", withRunningPod(), waiting("ErrImageNeverPull", ""), pendingWith("ErrImageNeverPull")},
		"anything":    {"it is copied", withRunningPod(), waiting("RunContainerError", "4"), pendingWith("RunContainerError")},
		"nonsense":    {"unless invalid", withRunningPod(), waiting("what is this", ""), pendingWith("Starting")},
		"crash loop":  {"the node backs off", withRunningPod(), waiting("CrashLoopBackOff", "back-off 40s"), crashLoop},
		"crashed":     {"before the node backs off", withRunningPod(), crashed, crashLoop},
		"not ready":   {"it runs", withRunningPod(), unready, runningWith(running, "ContainerNotReady")},
		"silent node": {"its node is gone", withRunningPod(), unreachable, runningWith(running, "PodNotReady")},
		"not updated": {"the node is behind", withRunningPod(), outdated, runningWith(running, "Updating")},
		"updated":     {"the node is not", withRunningPod(), upToDate, runningWith(running, "")},
		"no secret": {
			"told by the node", withRunningPod(), waiting("CreateContainerConfigError", `secret "x" not found`),
			pendingWith("CreateContainerConfigError"),
		},
	})
}

// kubectl wait relies on the conditions. Their reason and message are those of the decision, unless a failed creation of
// the pod left a better one.
func TestNextConditions(t *testing.T) {
	t.Parallel()
	dead := pod("a", ended(corev1.PodFailed, "Error", 1))
	crashLoop := pod("a", waitingFor("CrashLoopBackOff", ""))
	for name, tc := range map[string]struct {
		ic                  *v1alpha1.ImmortalContainer
		pod                 *corev1.Pod
		running, backingOff string
	}{
		"runs":       {withRunningPod(), pod("a"), "True/Running", "False/NoDelay"},
		"dead":       {withRunningPod(), dead, "False/BackingOff", "True/BackingOff"},
		"crash loop": {withRunningPod(), crashLoop, "False/CrashLoopBackOff", "True/CrashLoopBackOff"},
		"deleted":    {withRunningPod(), pod("a", deleted(0)), "False/Terminating", "False/NoDelay"},
		"suspended":  {newContainer(edited(suspend)), nil, "False/Suspended", "False/NoDelay"},
		"blocked":    {newContainer(createRejected("PodNameConflict")), nil, "False/PodNameConflict", "False/NoDelay"},
		"refused":    {newContainer(createRejected("PodRejected")), nil, "False/PodRejected", "False/NoDelay"},
	} {
		step := policy.Next(tc.ic, tc.pod, noon)
		for condition, want := range map[string]string{"PodRunning": tc.running, "BackingOff": tc.backingOff} {
			c := conditions.Get(tc.ic, condition)
			if got := fmt.Sprintf("%s/%s", c.Status, c.Reason); got != want {
				t.Errorf("%s: condition %s is %s, want %s", name, condition, got, want)
			}
			if c.Reason == step.Reason && c.Message != step.Message {
				t.Errorf("%s: condition %s says %q, want %q", name, condition, c.Message, step.Message)
			}
			if c.ObservedGeneration != tc.ic.Generation {
				t.Errorf("%s: condition %s is of generation %d, want %d", name, condition, c.ObservedGeneration,
					tc.ic.Generation)
			}
		}
	}
}
