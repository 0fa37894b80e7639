package policy_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// noon is the current time of the tests. Pods were created, and containers started, an hour before.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

// newContainer returns an ImmortalContainer without a pod and without a status.
func newContainer(changes ...func(*v1alpha1.ImmortalContainer)) *v1alpha1.ImmortalContainer {
	ic := &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Namespace: "default", UID: "owner", Generation: 1},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
	for _, change := range changes {
		change(ic)
	}
	return ic
}

// withRunningPod returns an ImmortalContainer with a counted, running pod "a".
func withRunningPod(changes ...func(*v1alpha1.ImmortalContainer)) *v1alpha1.ImmortalContainer {
	ic := newContainer()
	policy.Next(ic, pod("a"), noon)
	for _, change := range changes {
		change(ic)
	}
	return ic
}

// edited changes the specification.
func edited(change func(*v1alpha1.ImmortalContainerSpec)) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		change(&ic.Spec)
		ic.Generation++
	}
}

// observing evaluates the ImmortalContainer with these pods, one second apart, up to noon.
func observing(pods ...*corev1.Pod) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i, p := range pods {
			policy.Next(ic, p, noon.Add(time.Duration(i-len(pods))*time.Second))
		}
	}
}

// createRejected sets the condition that the SDK sets after a failed creation of the pod.
func createRejected(reason string) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) { conditions.MarkReconciling(ic, reason, "because") }
}

// pod returns a pod as the operator creates it, running and ready, with changes.
func pod(uid types.UID, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := desired.Pod(newContainer())
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

// started sets the start of the container to that long before noon.
func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = at(-ago) }
}

// ended puts the pod in its final phase, after its container ran for a second.
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

// failedByKubelet sets the reason given by a kubelet for the end of a pod.
func failedByKubelet(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.Reason = reason
		p.Status.Message = message
	}
}

// deleted marks the pod as deleted. The end of its grace period of 30 seconds is that long ago.
func deleted(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(at(30*time.Second - ago)) }
}

func disrupted(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "a user evicted the pod",
		})
	}
}

// waitingFor sets the reason that the container waits for.
func waitingFor(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].Ready = false
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}
	}
}

// failures observes n pods that ended by themselves, each as it fails and when it is gone.
func failures(n int) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i := range n {
			uid := types.UID(fmt.Sprintf("failed-%d", i))
			observing(pod(uid, ended(corev1.PodFailed, "Error", 1)), nil)(ic)
		}
	}
}

// deletions observes n deleted pods at that interval, the last one at noon.
func deletions(n int, every time.Duration) func(*v1alpha1.ImmortalContainer) {
	return func(ic *v1alpha1.ImmortalContainer) {
		for i := range n {
			uid := types.UID(fmt.Sprintf("deleted-%d", i))
			when := noon.Add(-time.Duration(n-1-i) * every)
			policy.Next(ic, pod(uid), when)
			policy.Next(ic, pod(uid, deleted(0)), when)
			policy.Next(ic, nil, when)
		}
	}
}

// Changes of a specification.
func suspend(s *v1alpha1.ImmortalContainerSpec)  { s.Suspend = true }
func resume(s *v1alpha1.ImmortalContainerSpec)   { s.Suspend = false }
func newImage(s *v1alpha1.ImmortalContainerSpec) { s.Image = "nginx:2" }
func newArgs(s *v1alpha1.ImmortalContainerSpec)  { s.Args = []string{"-v"} }
func recreate(s *v1alpha1.ImmortalContainerSpec) { s.UpdateStrategy = v1alpha1.UpdateRecreate }
func replace(s *v1alpha1.ImmortalContainerSpec)  { s.NodeLost = v1alpha1.NodeLostReplace }
