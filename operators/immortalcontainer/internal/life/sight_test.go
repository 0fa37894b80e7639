package life_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

func TestNextSight(t *testing.T) {
	t.Parallel()
	lives := func(phase v1alpha1.Phase, reason string) verdict {
		return verdict{Want: life.Run, Counted: true, Phase: phase, Reason: reason, Starts: 1}
	}
	pends := func(reason string) verdict { return lives(pending, reason) }
	unscheduled := pod("a", func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = nil
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes fit",
		}}
	})
	born := pod("a", func(p *corev1.Pod) { p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending} })
	unready := pod("a", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false })
	silent := pod("a", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	behind := pod("a", func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 })
	upToDate := pod("a", func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 2 })
	crashed := pod("a", ended(corev1.PodRunning, "Error", 1))
	waiting := func(reason, message string) *corev1.Pod { return pod("a", waits(reason, message)) }
	crashLoop := lives(backingOff, "CrashLoopBackOff")
	check(t, map[string]nextCase{
		"new":         {"nobody looked for a node yet", settled(), born, pends("Starting")},
		"no node":     {"no node takes it", settled(), unscheduled, pends("Unschedulable")},
		"creating":    {"the node is at it", settled(), waiting("ContainerCreating", ""), pends("Starting")},
		"first pull":  {"two words, one fact", settled(), waiting("ErrImagePull", "rpc 1"), pends("ImagePullBackOff")},
		"next pulls":  {"two words, one fact", settled(), waiting("ImagePullBackOff", ""), pends("ImagePullBackOff")},
		"bad image":   {"nobody can read it", settled(), waiting("InvalidImageName", ""), pends("InvalidImageName")},
		"never pull":  {"it is not there", settled(), waiting("ErrImageNeverPull", ""), pends("ErrImageNeverPull")},
		"anything":    {"told by its word", settled(), waiting("RunContainerError", "4"), pends("RunContainerError")},
		"nonsense":    {"unless it is none", settled(), waiting("what is this", ""), pends("Starting")},
		"crash loop":  {"the node backs off", settled(), waiting("CrashLoopBackOff", "back-off 40s"), crashLoop},
		"crashed":     {"the moment before that", settled(), crashed, crashLoop},
		"not ready":   {"it runs", settled(), unready, lives(running, "ContainerNotReady")},
		"silent node": {"who knows", settled(), silent, lives(running, "PodNotReady")},
		"not updated": {"the node is behind", settled(), behind, lives(running, "Updating")},
		"updated":     {"the node is not", settled(), upToDate, lives(running, "")},
		"no secret": {
			"told by the node", settled(), waiting("CreateContainerConfigError", `secret "x" not found`),
			pends("CreateContainerConfigError"),
		},
	})
}

// The conditions are part of the promise to kubectl wait; the reason and message are those of the step, unless an
// attempt to create the pod left better ones.
func TestNextConditions(t *testing.T) {
	t.Parallel()
	dead := pod("a", ended(corev1.PodFailed, "Error", 1))
	crashLoop := pod("a", waits("CrashLoopBackOff", ""))
	for name, tc := range map[string]struct {
		ic                  *v1alpha1.ImmortalContainer
		pod                 *corev1.Pod
		running, backingOff string
	}{
		"runs":       {settled(), pod("a"), "True/Running", "False/NoDelay"},
		"dead":       {settled(), dead, "False/BackingOff", "True/BackingOff"},
		"crash loop": {settled(), crashLoop, "False/CrashLoopBackOff", "True/CrashLoopBackOff"},
		"deleted":    {settled(), pod("a", deleted(0)), "False/Terminating", "False/NoDelay"},
		"suspended":  {fresh(edited(suspend)), nil, "False/Suspended", "False/NoDelay"},
		"blocked":    {fresh(refused("PodNameConflict")), nil, "False/PodNameConflict", "False/NoDelay"},
		"refused":    {fresh(refused("PodRejected")), nil, "False/PodRejected", "False/NoDelay"},
	} {
		step := life.Next(tc.ic, tc.pod, noon)
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
