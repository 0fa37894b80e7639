package kubelet_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// withSidecar adds a second container.
func withSidecar(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar", Image: "proxy:1"})
}

func (w world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func statusOf(p *corev1.Pod, container string) corev1.ContainerStatus {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == container {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

func TestKillContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1", withSidecar)
	w.check(simulator.KillContainer(t.Context(), w.key("p"), "app"))
	p := w.waitPod("p", "it is Ready after a restart", func(p *corev1.Pod) bool {
		return ready(p) == corev1.ConditionTrue && statusOf(p, "app").RestartCount == 1
	})
	last := statusOf(p, "app").LastTerminationState.Terminated
	if last == nil || last.ExitCode != 137 || last.Reason != "Error" {
		t.Errorf("the last state is %+v, want exit code 137 and reason Error", last)
	}
	if n := statusOf(p, "sidecar").RestartCount; n != 0 {
		t.Errorf("the other container was restarted %d times", n)
	}
	w.check(simulator.ExhaustMemory(t.Context(), w.key("p"), "app"))
	p = w.waitPod("p", "it is Ready after another restart", func(p *corev1.Pod) bool {
		return ready(p) == corev1.ConditionTrue && statusOf(p, "app").RestartCount == 2
	})
	if last := statusOf(p, "app").LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" {
		t.Errorf("the last state is %+v, want reason OOMKilled", last)
	}
}

func TestKillContainerThatStaysDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1", withSidecar, withPolicy(corev1.RestartPolicyNever))
	w.check(simulator.KillContainer(t.Context(), w.key("p"), "app"))
	p := w.waitPod("p", "one container has ended", func(p *corev1.Pod) bool {
		return statusOf(p, "app").State.Terminated != nil
	})
	if p.Status.Phase != corev1.PodRunning || ready(p) != corev1.ConditionFalse {
		t.Errorf("the pod has phase %s and Ready=%s, want Running and False", p.Status.Phase, ready(p))
	}
	w.check(simulator.ExhaustMemory(t.Context(), w.key("p"), "sidecar"))
	w.waitPod("p", "it has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	err := simulator.KillContainer(t.Context(), w.key("p"), "app")
	if err == nil || !strings.Contains(err.Error(), "it does not run") {
		t.Errorf("killing a container of a failed pod: %v", err)
	}
}

// An evicted pod has failed with all containers, and stays.
func TestEvictPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1", withSidecar)
	w.runningPod("other", "web:1")
	w.check(simulator.EvictPod(t.Context(), w.key("p")))
	p := w.waitPod("p", "it has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, "ephemeral-storage") ||
		ready(p) != corev1.ConditionFalse || !p.DeletionTimestamp.IsZero() {
		t.Errorf("the evicted pod has status %+v", p.Status)
	}
	for _, name := range []string{"app", "sidecar"} {
		if statusOf(p, name).State.Terminated == nil {
			t.Errorf("container %s runs", name)
		}
	}
	if other := w.waitPod("other", "it is read", func(*corev1.Pod) bool { return true }); ready(other) != corev1.ConditionTrue {
		t.Error("another pod was evicted as well")
	}
	if err := simulator.EvictPod(t.Context(), w.key("missing")); !apierrors.IsNotFound(err) {
		t.Errorf("evicting a pod that does not exist: %v", err)
	}
}

func TestPauseContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1", withSidecar)
	other := w.runningPod("other", "web:1")
	resume, err := simulator.PauseContainer(t.Context(), w.key("p"), "app")
	w.check(err)
	w.patch("p", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}) // triggers the stages
	w.sync()
	p := w.waitPod("p", "it is not Ready", func(p *corev1.Pod) bool { return ready(p) == corev1.ConditionFalse })
	if app, sidecar := statusOf(p, "app"), statusOf(p, "sidecar"); app.Ready || app.State.Running == nil || !sidecar.Ready {
		t.Errorf("the paused container is %+v, the other one %+v", app, sidecar)
	}
	w.check(resume(t.Context()))
	p = w.waitReady("p")
	if n := statusOf(p, "app").RestartCount; n != 0 {
		t.Errorf("the container was restarted %d times", n)
	}
	w.check(resume(t.Context()))
	again, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), "other", metav1.GetOptions{})
	w.check(err)
	if again.ResourceVersion != other.ResourceVersion {
		t.Error("another pod has changed")
	}
}

func TestLosePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stays, goes := w.runningPod("stays", "web:1"), w.runningPod("goes", "web:1")
	restoreStays, err := simulator.LosePod(t.Context(), w.key("stays"))
	w.check(err)
	restoreGoes, err := simulator.LosePod(t.Context(), w.key("goes"))
	w.check(err)
	w.delete("goes")
	w.sync() // the node has a kubelet
	for _, lost := range []*corev1.Pod{stays, goes} {
		p, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), lost.Name, metav1.GetOptions{})
		w.check(err)
		if p.UID != lost.UID || p.Status.Phase != corev1.PodRunning || ready(p) != corev1.ConditionFalse {
			t.Errorf("lost pod %s has phase %s and Ready=%s, want Running and False", p.Name, p.Status.Phase, ready(p))
		}
	}
	w.check(restoreStays(t.Context()))
	w.check(restoreGoes(t.Context()))
	w.waitReady("stays")
	w.waitGone("goes", goes.UID)
	w.check(restoreGoes(t.Context()))
}
