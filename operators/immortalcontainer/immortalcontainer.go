// Package immortalcontainer keeps containers alive: for each ImmortalContainer it keeps exactly one pod running, and it
// counts the pods it ever took.
//
// This file is the whole operator. What it decides is in internal/life, what the pod looks like in internal/desired,
// and how both become requests is the SDK's business.
package immortalcontainer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Operator keeps ImmortalContainers alive.
var Operator = &sdk.Operator[*v1alpha1.ImmortalContainer]{
	Name:           "immortalcontainer",
	Doc:            "The immortalcontainer operator keeps one container running, whatever happens to its pods.",
	AddToScheme:    v1alpha1.AddToScheme,
	Owns:           []client.Object{&corev1.Pod{}},
	Reconcile:      reconcile,
	Finalize:       handOver,
	NeedsFinalizer: keepsPod,
}

func reconcile(_ context.Context, p *sdk.Pass[*v1alpha1.ImmortalContainer]) error {
	pod := desired.Pod(p.Object)
	live := observe(p, pod)
	step := life.Next(p.Object, live, p.Now)
	p.RequeueAfter(step.After)
	report(p, step)
	switch step.Want {
	case life.Run:
		sdk.Apply(p, pod,
			sdk.HoldUntil(step.Counted),
			sdk.OnImmutable(sdk.Recreate),
			sdk.ConflictReason(life.ReasonPodNameConflict))
	case life.Abandon:
		sdk.ForceDelete(p, live)
	case life.Stop:
	}
	return nil
}

// observe returns the pod that exists, nil if there is none.
func observe(p *sdk.Pass[*v1alpha1.ImmortalContainer], pod *corev1.Pod) *corev1.Pod {
	if live, ok := sdk.Live(p, pod.DeepCopy()); ok {
		return live
	}
	return nil
}

// report says why the container is not running and ready, and what happened to its pods.
func report(p *sdk.Pass[*v1alpha1.ImmortalContainer], step life.Step) {
	switch {
	case p.Object.Spec.Suspend:
		p.Suspended(step.Reason, "%s", step.Message)
	case step.Reason != "":
		p.NotReady(step.Reason, "%s", step.Message)
	}
	if step.Started {
		p.Event("Started", "Pod %s was created: start %d", p.Object.Status.CurrentPod, p.Object.Status.StartTimes)
	}
	if step.Ended != nil {
		tell := p.Warn
		if life.Intended(step.Ended.Reason) {
			tell = p.Event
		}
		tell("Ended", "The pod ended: %s", step.Ended.Reason)
	}
	p.OnStatusUpdated(func() { observed(p.Object, step) })
}

// keepsPod reports whether the pod must outlive the ImmortalContainer, which garbage collection would not do.
func keepsPod(ic *v1alpha1.ImmortalContainer) bool {
	return ic.Spec.DeletionPolicy == v1alpha1.DeletionOrphan
}

func handOver(_ context.Context, p *sdk.Pass[*v1alpha1.ImmortalContainer]) error {
	p.OrphanChildren()
	return nil
}
