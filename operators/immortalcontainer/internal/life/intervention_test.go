package life_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
)

func TestNextIntervention(t *testing.T) {
	t.Parallel()
	ended := func(phase v1alpha1.Phase, reason, last string) verdict {
		return verdict{
			Want: life.Stop, Counted: true, Phase: phase, Reason: reason, Starts: 1, Last: last, History: 1,
		}
	}
	stopped := ended(suspended, "Suspended", "Suspended")
	gone := stopped
	gone.Counted = false
	overdue := ended(pending, "NodeLost", "NodeLost")
	abandoned := overdue
	abandoned.Want = life.Abandon
	patient := ended(pending, "Terminating", "NodeLost")
	patient.After = time.Second
	unreachable := disrupted("DeletionByTaintManager")
	check(t, map[string]nextCase{
		"suspend":   {"the pod goes", settled(edited(suspend)), pod("a"), stopped},
		"suspended": {"and none comes", settled(edited(suspend), then(pod("a"))), nil, gone},
		"suspended early": {"before there was any", fresh(edited(suspend)), nil, verdict{
			Want: life.Stop, Phase: suspended, Reason: "Suspended",
		}},
		"resume": {
			"a pod starts at once, whatever happened before",
			settled(failures(3), edited(suspend), then(pod("x")), edited(resume)), nil,
			verdict{
				Want: life.Run, Phase: pending, Reason: "Starting", Starts: 5, Last: "Suspended", History: 5,
			},
		},
		"resume while it stops": {
			"what was told to stop must be gone first",
			settled(edited(suspend), then(pod("a")), edited(resume)), pod("a", deleted(0)),
			ended(pending, "Terminating", "Suspended"),
		},
		"resume before it stops": {
			"an end that is recorded is carried out, so that the account is true",
			settled(edited(suspend), then(pod("a")), edited(resume)), pod("a"),
			ended(pending, "Terminating", "Suspended"),
		},
		"image in place": {
			"a new image does not end the pod", settled(edited(newImage)), pod("a"),
			verdict{Want: life.Run, Counted: true, Phase: running, Starts: 1},
		},
		"image recreate": {
			"unless that is wanted", settled(edited(recreate), edited(newImage)), pod("a"),
			ended(pending, "Terminating", "ImageChanged"),
		},
		"strategy alone": {
			"the strategy is no reason to end anything",
			settled(edited(newImage), then(pod("a")), edited(recreate)), pod("a"),
			verdict{Want: life.Run, Counted: true, Phase: running, Starts: 1},
		},
		"arguments": {
			"a pod cannot take over new arguments, but it goes on until the API server accepts its successor",
			settled(edited(newArgs)), pod("a"),
			verdict{Want: life.Run, Counted: true, Phase: running, Starts: 1},
		},
		"arguments accepted": {
			"then the SDK deletes it, which is not somebody's doing", settled(edited(newArgs)), pod("a", deleted(0)),
			ended(pending, "Terminating", "SpecChanged"),
		},
		"arguments accepted at once": {
			"a pod that runs nowhere is gone at once", settled(edited(newArgs)),
			pod("b", func(p *corev1.Pod) { p.Annotations = desired.Pod(fresh(edited(newArgs))).Annotations }),
			verdict{Want: life.Run, Phase: running, Starts: 2, Last: "SpecChanged", History: 1},
		},
		"arguments again and again": {
			"and no reason to wait",
			fresh(deletions(5, time.Second), edited(newArgs), then(pod("x"))), pod("x", deleted(0)),
			verdict{
				Want: life.Stop, Counted: true, Phase: pending, Reason: "Terminating", Starts: 6, Last: "SpecChanged",
				History: 6,
			},
		},
		"annotations lost": {
			"somebody removed the annotations: no reason to end the pod", settled(edited(recreate)),
			pod("a", func(p *corev1.Pod) { p.Annotations = nil }),
			verdict{Want: life.Run, Counted: true, Phase: running, Starts: 1},
		},
		"lost, at first": {
			"a node has time to end a pod", settled(then(pod("a", deleted(0), unreachable))),
			pod("a", deleted(59*time.Second), unreachable), patient,
		},
		"lost, wait": {
			"nobody knows whether the container still runs", settled(then(pod("a", deleted(0), unreachable))),
			pod("a", deleted(time.Minute), unreachable), overdue,
		},
		"lost, replace": {
			"the user accepts that it may", settled(edited(replace), then(pod("a", deleted(0), unreachable))),
			pod("a", deleted(time.Minute), unreachable), abandoned,
		},
		"slow, replace": {
			"a pod that a person deleted is never given up: its node may just be slow",
			settled(edited(replace), then(pod("a", deleted(0)))), pod("a", deleted(time.Hour)),
			ended(pending, "Terminating", "Deleted"),
		},
	})
}
