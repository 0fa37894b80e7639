// Package immortalcontainer reconciles ImmortalContainers: each has exactly one pod, and the status counts every pod that
// was created for it.
//
// This file is the whole operator. Package internal/policy decides, package internal/desired builds the pod, and the SDK
// sends the requests.
package immortalcontainer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk"
)

// Operator reconciles ImmortalContainers.
var Operator = &sdk.Operator[*v1alpha1.ImmortalContainer]{
	Name:           "immortalcontainer",
	Doc:            "The immortalcontainer operator keeps one container running, and replaces its pod after every termination.",
	AddToScheme:    v1alpha1.AddToScheme,
	Owns:           []client.Object{&corev1.Pod{}},
	Reconcile:      reconcile,
	Finalize:       orphanPod,
	NeedsFinalizer: orphansPod,
}

func reconcile(_ context.Context, p *sdk.Pass[*v1alpha1.ImmortalContainer]) error {
	pod := desired.Pod(p.Object)
	live := livePod(p, pod)
	decision := policy.Next(p.Object, live, p.Now)
	p.RequeueAfter(decision.After)
	report(p, decision)
	switch decision.Want {
	case policy.Run:
		sdk.Apply(p, pod,
			sdk.HoldUntil(decision.Counted),
			sdk.OnImmutable(sdk.Recreate),
			sdk.ConflictReason(policy.ReasonPodNameConflict))
	case policy.ForceDelete:
		sdk.ForceDelete(p, live)
	case policy.Stop:
	}
	return nil
}

// livePod returns the pod that exists, or nil.
func livePod(p *sdk.Pass[*v1alpha1.ImmortalContainer], pod *corev1.Pod) *corev1.Pod {
	if live, ok := sdk.Live(p, pod.DeepCopy()); ok {
		return live
	}
	return nil
}

// report sets the Ready reason of a container that is not running and ready, and records events about its pods.
func report(p *sdk.Pass[*v1alpha1.ImmortalContainer], decision policy.Decision) {
	switch {
	case p.Object.Spec.Suspend:
		p.SetSuspended(decision.Reason, "%s", decision.Message)
	case decision.Reason != "":
		p.SetNotReady(decision.Reason, "%s", decision.Message)
	}
	if decision.Started {
		p.Event("Started", "Pod %s was created: start %d", p.Object.Status.CurrentPod, p.Object.Status.StartTimes)
	}
	if decision.Ended != nil {
		record := p.Warn
		if policy.Intended(decision.Ended.Reason) {
			record = p.Event
		}
		record("Ended", "The pod ended: %s", decision.Ended.Reason)
	}
	p.OnStatusUpdated(func() { recordMetrics(p.Object, decision) })
}

// orphansPod reports whether the pod outlives the ImmortalContainer. Garbage collection would delete it, so this needs a
// finalizer.
func orphansPod(ic *v1alpha1.ImmortalContainer) bool {
	return ic.Spec.DeletionPolicy == v1alpha1.DeletionOrphan
}

func orphanPod(_ context.Context, p *sdk.Pass[*v1alpha1.ImmortalContainer]) error {
	p.OrphanChildren()
	return nil
}
