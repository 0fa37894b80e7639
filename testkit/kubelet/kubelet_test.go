package kubelet_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// outcome is the state of a pod after a mode was applied.
type outcome struct {
	Phase       corev1.PodPhase
	Reason      string // of the pod
	ReadyReason string // of the condition Ready, which is False
	State       string // of the container, with its reason
	ExitCode    int32  // of the container's last termination
	Restarts    int32
	Disruption  string // reason of the condition DisruptionTarget
}

func outcomeOf(p *corev1.Pod) outcome {
	s := p.Status.ContainerStatuses[0]
	o := outcome{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Restarts: s.RestartCount,
		Disruption: podCondition(p, corev1.DisruptionTarget).Reason,
	}
	if c := podCondition(p, corev1.PodReady); c.Status == corev1.ConditionFalse {
		o.ReadyReason = c.Reason
	}
	ended := s.LastTerminationState.Terminated
	switch {
	case s.State.Running != nil:
		o.State = "Running"
	case s.State.Waiting != nil:
		o.State = "Waiting/" + s.State.Waiting.Reason
	case s.State.Terminated != nil:
		o.State = "Terminated/" + s.State.Terminated.Reason
		ended = s.State.Terminated
	}
	if ended != nil {
		o.ExitCode = ended.ExitCode
	}
	return o
}

func TestFail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		mode   kubelet.Mode
		policy corev1.RestartPolicy
		want   outcome
	}{
		"failed": {
			reason: "phase Failed is final with every restart policy",
			mode:   kubelet.Failed, policy: corev1.RestartPolicyAlways,
			want: outcome{Phase: "Failed", ReadyReason: "PodFailed", State: "Terminated/Error", ExitCode: 1},
		},
		"out of memory": {
			reason: "the exit code is the caller's choice",
			mode:   kubelet.FailedWith(137), policy: corev1.RestartPolicyNever,
			want: outcome{Phase: "Failed", ReadyReason: "PodFailed", State: "Terminated/Error", ExitCode: 137},
		},
		"succeeded": {
			reason: "exit code 0 is a success",
			mode:   kubelet.Succeeded, policy: corev1.RestartPolicyNever,
			want: outcome{Phase: "Succeeded", ReadyReason: "PodCompleted", State: "Terminated/Completed"},
		},
		"evicted": {
			reason: "an evicted pod has the reason and names the disruption",
			mode:   kubelet.Evicted, policy: corev1.RestartPolicyAlways,
			want: outcome{
				Phase: "Failed", Reason: "Evicted", ReadyReason: "PodFailed", State: "Terminated/Error", ExitCode: 137,
				Disruption: "TerminationByKubelet",
			},
		},
		"exited, always": {
			reason: "the container is started again and gets ready",
			mode:   kubelet.ExitedWith(3), policy: corev1.RestartPolicyAlways,
			want: outcome{Phase: "Running", State: "Running", ExitCode: 3, Restarts: 1},
		},
		"exited with 0, always": {
			reason: "a container that must always run is started again even then",
			mode:   kubelet.ExitedWith(0),
			policy: corev1.RestartPolicyAlways,
			want:   outcome{Phase: "Running", State: "Running", Restarts: 1},
		},
		"exited, on failure": {
			reason: "a failure is retried",
			mode:   kubelet.ExitedWith(3), policy: corev1.RestartPolicyOnFailure,
			want: outcome{Phase: "Running", State: "Running", ExitCode: 3, Restarts: 1},
		},
		"exited with 0, on failure": {
			reason: "a success is not retried",
			mode:   kubelet.ExitedWith(0), policy: corev1.RestartPolicyOnFailure,
			want: outcome{Phase: "Succeeded", ReadyReason: "PodCompleted", State: "Terminated/Completed"},
		},
		"exited, never": {
			reason: "nothing is retried",
			mode:   kubelet.ExitedWith(3), policy: corev1.RestartPolicyNever,
			want: outcome{Phase: "Failed", ReadyReason: "PodFailed", State: "Terminated/Error", ExitCode: 3},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.runningPod("p", "web:1", withPolicy(tc.policy))
			w.runningPod("other", "web:1", withPolicy(tc.policy))
			w.check(simulator.Fail(t.Context(), w.namespace, "app=p", tc.mode))
			w.patch("p", map[string]any{"metadata": map[string]any{"labels": map[string]any{"look": "again"}}})
			w.sync()
			pod := w.waitPod("p", "it is as it should be", func(p *corev1.Pod) bool {
				return tc.want.Phase != corev1.PodRunning || ready(p) == corev1.ConditionTrue
			})
			if diff := cmp.Diff(tc.want, outcomeOf(pod)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if ready(w.waitReady("other")) != corev1.ConditionTrue {
				t.Error("the other pod fails, too")
			}
		})
	}
}

func TestFailIsSynchronous(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	w.check(simulator.Fail(t.Context(), w.namespace, "app=p", kubelet.Failed))
	pod, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), "p", metav1.GetOptions{})
	w.check(err)
	if pod.Status.Phase != corev1.PodFailed {
		t.Errorf("phase is %s when Fail returns, want Failed", pod.Status.Phase)
	}
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	w.check(simulator.Fail(t.Context(), w.namespace, "app=p", kubelet.CrashLoop))
	pod := w.waitPod("p", "it was restarted three times", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount >= 3
	})
	want := outcome{
		Phase: "Running", ReadyReason: "ContainersNotReady",
		State: "Waiting/CrashLoopBackOff", ExitCode: 1, Restarts: 3,
	}
	if diff := cmp.Diff(want, outcomeOf(pod)); diff != "" {
		t.Errorf("a crash loop (-want +got):\n%s", diff)
	}
	w.check(simulator.Heal(t.Context(), w.namespace, "app=p"))
	w.waitReady("p")
}

func TestAnotherImageEndsCrashLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	w.whileStopped(func() { // the container crashes again after 1 s
		w.check(simulator.Fail(t.Context(), w.namespace, "app=p", kubelet.CrashLoop))
		w.setImage("web:2")
	})
	pod := w.waitReady("p")
	if s := pod.Status.ContainerStatuses[0]; s.Image != "web:2" || s.RestartCount != 2 {
		t.Errorf("image %s, %d restarts, want web:2 and 2: the crash, and the new image", s.Image, s.RestartCount)
	}
}

func TestFailErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	tests := map[string]struct {
		reason   string
		selector string
		mode     kubelet.Mode
		want     string
	}{
		"no pods":  {reason: "a typo must be an error", selector: "app=q", mode: kubelet.Failed, want: `matches "app=q"`},
		"selector": {reason: "a selector has a syntax", selector: "=", mode: kubelet.Failed, want: "expected: !, iden"},
		"mode":     {reason: "the zero mode is invalid", selector: "app=p", want: "mode is missing"},
	}
	for name, tc := range tests {
		err := simulator.Fail(t.Context(), w.namespace, tc.selector, tc.mode)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s: error is %v, want one with %q", name, tc.reason, err, tc.want)
		}
	}
}

// becameReady watches a pod from its creation. stop reports whether it was ever Ready.
func (w world) becameReady(name string) (stop func() bool) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	events, err := client.CoreV1().Pods(w.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name,
	})
	w.check(err)
	verdict := make(chan bool)
	go func() {
		seen := false
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			seen = seen || ok && event.Type != watch.Error && ready(pod) == corev1.ConditionTrue
		}
		verdict <- seen
	}()
	return func() bool {
		w.Helper()
		defer cancel()
		// The watch delivers events in order: after this one it has delivered all others.
		w.sync()
		events.Stop()
		return <-verdict
	}
}

func TestDelayReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.runningPod("old", "web:1")
	release, err := simulator.DelayReadiness(t.Context(), w.namespace, "app in (old, new)")
	w.check(err)
	pod, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), "old", metav1.GetOptions{})
	w.check(err)
	if ready(pod) != corev1.ConditionFalse || pod.Status.ContainerStatuses[0].Ready {
		t.Errorf("a pod that was Ready still is when DelayReadiness returns: %s", show(pod.Status))
	}
	if diff := cmp.Diff(old.Status.ContainerStatuses[0].State, pod.Status.ContainerStatuses[0].State); diff != "" {
		t.Errorf("its container does not just run on (-before +after):\n%s", diff)
	}

	stop := w.becameReady("new")
	w.pod("new", "web:1")
	pod = w.waitPod("new", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if c := podCondition(pod, corev1.PodReady); c.Status != "False" || c.Reason != "ContainersNotReady" {
		t.Errorf("Ready is %s, reason %q, want False and ContainersNotReady", c.Status, c.Reason)
	}
	if stop() {
		t.Error("the new pod was Ready although it is held back")
	}
	w.check(release(t.Context()))
	w.waitReady("old")
	w.waitReady("new")
	w.check(release(t.Context()))
	w.runningPod("next", "web:1")
}

func TestHoldsOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	releaseAll, err := simulator.DelayReadiness(t.Context(), w.namespace, "")
	w.check(err)
	releaseOne, err := simulator.DelayReadiness(t.Context(), w.namespace, "app=p")
	w.check(err)
	w.check(releaseAll(t.Context()))
	w.sync()
	pod := w.waitPod("p", "it is there", func(*corev1.Pod) bool { return true })
	if ready(pod) != corev1.ConditionFalse {
		t.Error("the pod is Ready although one hold is left")
	}
	w.check(releaseOne(t.Context()))
	w.waitReady("p")
}

func TestHealReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := simulator.DelayReadiness(t.Context(), w.namespace, "app=p")
	w.check(err)
	w.pod("p", "web:1")
	w.waitPod("p", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	w.check(simulator.Heal(t.Context(), w.namespace, "app=p"))
	w.waitReady("p")
}

func TestHeldPodOfJobKeepsRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release, err := simulator.DelayReadiness(t.Context(), w.namespace, "app=p")
	w.check(err)
	w.pod("p", "work:1", ofJob(w))
	w.waitPod("p", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	w.sync()
	w.check(simulator.Fail(t.Context(), w.namespace, "app=p", kubelet.Failed)) // it has not completed meanwhile
	w.pod("q", "work:1", func(p *corev1.Pod) { p.Labels["app"] = "p" })
	w.waitPod("q", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	w.check(release(t.Context()))
	w.waitReady("q")
}

func TestDelayReadinessErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := simulator.DelayReadiness(t.Context(), w.namespace, "="); err == nil {
		t.Error("an invalid selector was accepted")
	}
	if _, err := simulator.DelayReadiness(t.Context(), "no-such-namespace", "app=p"); err == nil {
		t.Error("a missing namespace was accepted")
	}
}
