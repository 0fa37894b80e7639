package life_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// noon is when the tests take place. Pods were created, and their containers started, an hour before.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

// fresh is an ImmortalContainer that nothing was done for yet.
func fresh(changes ...func(*v1alpha1.ImmortalContainer)) *v1alpha1.ImmortalContainer {
	ic := &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Namespace: "default", UID: "owner", Generation: 1},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
	for _, change := range changes {
		change(ic)
	}
	return ic
}

// settled is an ImmortalContainer whose pod "a" is counted and runs.
func settled(changes ...func(*v1alpha1.ImmortalContainer)) *v1alpha1.ImmortalContainer {
	ic := fresh()
	life.Next(ic, pod("a"), noon)
	for _, change := range changes {
		change(ic)
	}
	return ic
}

// edited is a change of the specification.
func edited(change func(*v1alpha1.ImmortalContainerSpec)) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		change(&ic.Spec)
		ic.Generation++
	}
}

// then lets the ImmortalContainer live through more: it sees these pods, one second after another, up to noon.
func then(pods ...*corev1.Pod) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i, p := range pods {
			life.Next(ic, p, noon.Add(time.Duration(i-len(pods))*time.Second))
		}
	}
}

// refused is what the SDK leaves behind when it could not create the pod.
func refused(reason string) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) { conditions.MarkReconciling(ic, reason, "because") }
}

// pod is a pod as the operator creates it, running and ready, with changes.
func pod(uid types.UID, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := desired.Pod(fresh())
	p.UID = uid
	p.CreationTimestamp = at(-time.Hour)
	p.Spec.NodeName = "node-1"
	p.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: desired.ContainerName, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Hour)}},
		}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// started says how long before noon the container started.
func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = at(-ago) }
}

// ended is a pod in its final phase, after its container ran for a second.
func ended(phase corev1.PodPhase, reason string, exitCode int32) func(*corev1.Pod) {
	return ranFor(time.Second, phase, reason, exitCode)
}

func ranFor(d time.Duration, phase corev1.PodPhase, reason string, exitCode int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		c := &p.Status.ContainerStatuses[0]
		c.Ready = false
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, ExitCode: exitCode, StartedAt: at(-d - 10*time.Second), FinishedAt: at(-10 * time.Second),
		}}
	}
}

// blamed is the reason that a kubelet gives for the end of a pod.
func blamed(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
	}
}

// deleted is a pod that is being deleted and has 30 seconds to end, or that had them ago.
func deleted(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(at(30*time.Second - ago)) }
}

func disrupted(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "somebody wanted it",
		})
	}
}

// waits is a pod whose container waits for that reason.
func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].Ready = false
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}
	}
}

// failures is a series of pods that ended by themselves, each seen as it fails and again when it is gone.
func failures(n int) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i := range n {
			uid := types.UID(fmt.Sprintf("failed-%d", i))
			then(pod(uid, ended(corev1.PodFailed, "Error", 1)), nil)(ic)
		}
	}
}

// deletions is a series of pods that somebody deleted, one each second, the last one at noon.
func deletions(n int, every time.Duration) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i := range n {
			uid := types.UID(fmt.Sprintf("deleted-%d", i))
			when := noon.Add(-time.Duration(n-1-i) * every)
			life.Next(ic, pod(uid), when)
			life.Next(ic, pod(uid, deleted(0)), when)
			life.Next(ic, nil, when)
		}
	}
}

// Edits of a specification.
func suspend(s *v1alpha1.ImmortalContainerSpec)  { s.Suspend = true }
func resume(s *v1alpha1.ImmortalContainerSpec)   { s.Suspend = false }
func newImage(s *v1alpha1.ImmortalContainerSpec) { s.Image = "nginx:2" }
func newArgs(s *v1alpha1.ImmortalContainerSpec)  { s.Args = []string{"-v"} }
func recreate(s *v1alpha1.ImmortalContainerSpec) { s.UpdateStrategy = v1alpha1.UpdateRecreate }
func replace(s *v1alpha1.ImmortalContainerSpec)  { s.NodeLost = v1alpha1.NodeLostReplace }
