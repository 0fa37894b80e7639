package realnodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The node restarts a killed container in its pod. It is counted once, and is not another start.
func TestKilledContainer(t *testing.T) {
	t.Parallel()
	k := start(t)
	ic := newContainer("a")
	journal := keepJournal(t, ic)
	k.Apply(ic)
	k.Eventually(ic, testkit.Ready())
	pod := podOf(k, ic)
	containerOf(k, pod).Kill()
	k.Eventually(ic, restarts(1), starts(1), testkit.Ready())
	k.Consistently(ic, 2*time.Second, restarts(1), starts(1), testkit.Ready())
	line := fmt.Sprintf("%s alone", pod.UID)
	if diff := cmp.Diff([]string{line, line}, journal.lines()); diff != "" {
		t.Errorf("containers that ran (-want +got):\n%s", diff)
	}
}

// A deleted or evicted pod is replaced when its container has ended, and the status has the reason.
func TestDeletedPod(t *testing.T) {
	t.Parallel()
	for reason, end := range map[string]func(*testkit.K, *corev1.Pod){
		"Deleted": func(k *testkit.K, pod *corev1.Pod) { k.Delete(pod) },
		"Drained": (*testkit.K).Evict,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			k := start(t)
			ic := newContainer("a")
			journal := keepJournal(t, ic)
			const delay = 1 // second, in which the operator observes the condition of the eviction
			ic.Spec.TerminationGracePeriodSeconds = new(int64(2 * delay))
			ic.Spec.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
				Sleep: &corev1.SleepAction{Seconds: delay},
			}}
			k.Apply(ic)
			k.Eventually(ic, testkit.Ready())
			pod := podOf(k, ic)
			end(k, pod)
			k.Eventually(ic, starts(2), restarts(0), testkit.Ready(), lastTermination(reason))
			if uid := ic.Status.LastTermination.PodUID; uid != pod.UID {
				t.Errorf("the last termination is that of pod %s, want %s", uid, pod.UID)
			}
			want := []string{fmt.Sprintf("%s alone", pod.UID), fmt.Sprintf("%s alone", podOf(k, ic).UID)}
			if diff := cmp.Diff(want, journal.lines()); diff != "" {
				t.Errorf("containers that ran (-want +got):\n%s", diff)
			}
		})
	}
}

// A container that exceeds its memory limit is killed by the kernel and restarted in its pod. When it does so again, the
// status has the reason during the backoff of the node.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	k := start(t)
	ic := newContainer("a")
	ic.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	k.Apply(ic)
	k.Eventually(ic, testkit.Ready())
	pod := podOf(k, ic)
	exceed := func() {
		t.Helper()
		if text, err := k.Fetch(pod, port, "/allocate?bytes=134217728"); err == nil {
			t.Fatalf("the container has allocated twice its limit and responds %q", text)
		}
	}
	exceed()
	k.Eventually(ic, restarts(1), starts(1), testkit.Ready())
	k.Get(pod)
	last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.Reason != "OOMKilled" {
		t.Errorf("the last termination is %+v, want OOMKilled", last)
	}
	exceed()
	k.Eventually(ic, testkit.Match("backing off", func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.Phase == v1alpha1.PhaseBackingOff && strings.Contains(message(ic), "OOMKilled (exit code 137)")
	}))
	k.Eventually(ic, restarts(2), starts(1), testkit.Ready())
}

// message returns the message of condition Ready.
func message(ic *v1alpha1.ImmortalContainer) string {
	if c := conditions.Get(ic, conditions.Ready); c != nil {
		return c.Message
	}
	return ""
}
