package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

func TestNextIntervention(t *testing.T) {
	t.Parallel()
	ended := func(phase v1alpha1.Phase, reason, last string) outcome {
		return outcome{
			Want: policy.Stop, Counted: true, Phase: phase, Reason: reason, Starts: 1, Last: last, History: 1,
		}
	}
	stopped := ended(suspended, "Suspended", "Suspended")
	gone := stopped
	gone.Counted = false
	overdue := ended(pending, "NodeLost", "NodeLost")
	forceDeleted := overdue
	forceDeleted.Want = policy.ForceDelete
	waiting := ended(pending, "Terminating", "NodeLost")
	waiting.After = time.Second
	unreachable := disrupted("DeletionByTaintManager")
	check(t, map[string]nextCase{
		"suspend":   {"the pod is deleted", withRunningPod(edited(suspend)), pod("a"), stopped},
		"suspended": {"and not replaced", withRunningPod(edited(suspend), observing(pod("a"))), nil, gone},
		"suspended early": {"no pod is created", newContainer(edited(suspend)), nil, outcome{
			Want: policy.Stop, Phase: suspended, Reason: "Suspended",
		}},
		"resume": {
			"a pod starts at once, without a backoff",
			withRunningPod(failures(3), edited(suspend), observing(pod("x")), edited(resume)), nil,
			outcome{
				Want: policy.Run, Phase: pending, Reason: "Starting", Starts: 5, Last: "Suspended", History: 5,
			},
		},
		"resume while it stops": {
			"the old pod must be gone first",
			withRunningPod(edited(suspend), observing(pod("a")), edited(resume)), pod("a", deleted(0)),
			ended(pending, "Terminating", "Suspended"),
		},
		"resume before it stops": {
			"a recorded termination is carried out, so that the history stays true",
			withRunningPod(edited(suspend), observing(pod("a")), edited(resume)), pod("a"),
			ended(pending, "Terminating", "Suspended"),
		},
		"image in place": {
			"a new image does not end the pod", withRunningPod(edited(newImage)), pod("a"),
			outcome{Want: policy.Run, Counted: true, Phase: running, Starts: 1},
		},
		"image recreate": {
			"with strategy Recreate it does", withRunningPod(edited(recreate), edited(newImage)), pod("a"),
			ended(pending, "Terminating", "ImageChanged"),
		},
		"strategy alone": {
			"the strategy is no reason to end anything",
			withRunningPod(edited(newImage), observing(pod("a")), edited(recreate)), pod("a"),
			outcome{Want: policy.Run, Counted: true, Phase: running, Starts: 1},
		},
		"arguments": {
			"a pod cannot take over new arguments, but it goes on until the API server accepts its successor",
			withRunningPod(edited(newArgs)), pod("a"),
			outcome{Want: policy.Run, Counted: true, Phase: running, Starts: 1},
		},
		"arguments accepted": {
			"then the SDK deletes the pod, and that is no external deletion", withRunningPod(edited(newArgs)), pod("a", deleted(0)),
			ended(pending, "Terminating", "SpecChanged"),
		},
		"arguments accepted at once": {
			"a pod that runs nowhere is gone at once", withRunningPod(edited(newArgs)),
			pod("b", func(p *corev1.Pod) { p.Annotations = desired.Pod(newContainer(edited(newArgs))).Annotations }),
			outcome{Want: policy.Run, Phase: running, Starts: 2, Last: "SpecChanged", History: 1},
		},
		"arguments again and again": {
			"and no reason to wait",
			newContainer(deletions(5, time.Second), edited(newArgs), observing(pod("x"))), pod("x", deleted(0)),
			outcome{
				Want: policy.Stop, Counted: true, Phase: pending, Reason: "Terminating", Starts: 6, Last: "SpecChanged",
				History: 6,
			},
		},
		"annotations lost": {
			"missing annotations are no reason to end the pod", withRunningPod(edited(recreate)),
			pod("a", func(p *corev1.Pod) { p.Annotations = nil }),
			outcome{Want: policy.Run, Counted: true, Phase: running, Starts: 1},
		},
		"lost, at first": {
			"a node has time to end a pod", withRunningPod(observing(pod("a", deleted(0), unreachable))),
			pod("a", deleted(59*time.Second), unreachable), waiting,
		},
		"lost, wait": {
			"the container may still run", withRunningPod(observing(pod("a", deleted(0), unreachable))),
			pod("a", deleted(time.Minute), unreachable), overdue,
		},
		"lost, replace": {
			"the user accepts that it may", withRunningPod(edited(replace), observing(pod("a", deleted(0), unreachable))),
			pod("a", deleted(time.Minute), unreachable), forceDeleted,
		},
		"slow, replace": {
			"a pod deleted through the API is never force deleted: its node may just be slow",
			withRunningPod(edited(replace), observing(pod("a", deleted(0)))), pod("a", deleted(time.Hour)),
			ended(pending, "Terminating", "Deleted"),
		},
	})
}
