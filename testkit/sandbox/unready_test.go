package sandbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// UnreadyPods names what each pod waits for. Ready pods and those of finished Jobs are left out.
func TestUnreadyPods(t *testing.T) {
	t.Parallel()
	pod := func(name string, status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "1"},
			Spec:       corev1.PodSpec{NodeName: "node-0"}, Status: status,
		}
	}
	ended := func(status int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status, Reason: reason}}
	}
	anHourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: anHourAgo}}
	back := &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "for 10s"}
	waiting := corev1.ContainerState{Waiting: back}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	unscheduled := pod("f-unscheduled", corev1.PodStatus{Phase: corev1.PodPending})
	unscheduled.Spec.NodeName = ""
	clients := fake.NewClientset(
		pod("a-ready", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}),
		pod("b-done", corev1.PodStatus{Phase: corev1.PodSucceeded}),
		pod("c-init", corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "first", State: ended(0, "Completed"), Ready: true}, {Name: "copy", State: running},
		}, ContainerStatuses: []corev1.ContainerStatus{{Name: "db"}}}),
		pod("d-crashing", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "proxy", State: running, Ready: true}, {Name: "web", State: waiting, RestartCount: 3},
		}}),
		pod("e-failed", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "job", State: ended(2, "Error")},
		}}),
		unscheduled,
	)
	at := metav1.NewTime(time.Date(2026, 11, 29, 15, 4, 5, 0, time.UTC))
	clients.PrependReactor("list", "events", func(action k8stesting.Action) (bool, runtime.Object, error) {
		list, _ := action.(k8stesting.ListAction)
		if got := list.GetListRestrictions().Fields.String(); got != "involvedObject.uid=1" {
			t.Errorf("it listed events with %q", got)
		}
		return true, &corev1.EventList{Items: []corev1.Event{
			{Reason: "Unhealthy", Message: "probe", LastTimestamp: at},
			{Reason: "Scheduled", EventTime: metav1.NewMicroTime(at.Add(-time.Minute))},
		}}, nil
	})
	const event = "; last event: 15:04:05 Unhealthy: probe\n"
	const want = "pod shop/c-init on node node-0: Pending; container copy: running for 1h0m0s" + event + "    fake logs\n" +
		"pod shop/d-crashing on node node-0: Running; container web: waiting, CrashLoopBackOff: for 10s, restarted 3 times" +
		event + "    fake logs\n" +
		"pod shop/e-failed on node node-0: Failed; container job: ended with status 2, Error" + event + "    fake logs\n" +
		"pod shop/f-unscheduled on node -: Pending" + event
	if diff := cmp.Diff(want, unreadyPods(t.Context(), clients)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
