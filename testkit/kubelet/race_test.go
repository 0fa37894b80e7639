package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// kwok acts on events that may be stale. These tests make them stale.

var stopping sync.Mutex

// whileStopped runs do while kwok is stopped; afterwards kwok gets all events at once. Concurrent tests are only
// delayed.
func (w world) whileStopped(do func()) {
	w.Helper()
	stopping.Lock()
	defer stopping.Unlock()
	w.check(kwok.Signal(syscall.SIGSTOP))
	defer func() { w.check(kwok.Signal(syscall.SIGCONT)) }()
	w.waitStopped()
	do()
}

// waitStopped waits until all threads of kwok have stopped: the signal takes effect after the call has returned.
func (w world) waitStopped() {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), time.Millisecond, timeout, true,
		func(context.Context) (bool, error) {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", kwok.ID().PID))
			for _, thread := range threads {
				if stat, err := os.ReadFile(thread); err == nil && !strings.Contains(string(stat), ") T ") {
					return false, nil
				}
			}
			return true, err
		})
	w.check(err)
}

// rounds is the number of repetitions of a race: incorrect code wins it sometimes.
const rounds = 10

func TestFailureIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		w.runningPod("p", "web:1")
		w.whileStopped(func() {
			w.setImage("web:2") // kwok would restart the container
			w.check(simulator.Fail(t.Context(), w.namespace, "app=p", kubelet.Failed))
		})
		w.sync()
		pod := w.waitPod("p", "it is there", func(*corev1.Pod) bool { return true })
		if got := outcomeOf(pod); got.Phase != corev1.PodFailed || got.State != "Terminated/Error" {
			t.Fatalf("the failed pod runs again: %+v", got)
		}
		w.delete("p")
		w.waitGone("p", pod.UID)
	}
}

func TestNextPodOfSameNameIsNotTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		w.runningPod("p", "web:1")
		w.nextPodLives(func() { w.delete("p") })
	}
}

func TestNextPodOfSameNameIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		w.runningPod("p", "web:1")
		w.nextPodLives(func() {
			w.delete("p")
			// The state that kwok would have reached.
			_, err := client.CoreV1().Pods(w.namespace).Patch(t.Context(), "p", types.MergePatchType,
				[]byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
			w.check(err)
		})
	}
}

// nextPodLives causes events for the pod "p", replaces it by another one of that name before kwok receives them, and
// checks that the new pod is unaffected. It removes the pod.
func (w world) nextPodLives(cause func()) {
	w.Helper()
	var next *corev1.Pod
	w.whileStopped(func() {
		cause()
		w.check(client.CoreV1().Pods(w.namespace).Delete(w.Context(), "p", *metav1.NewDeleteOptions(0)))
		next = w.pod("p", "web:1")
	})
	w.sync()
	if now := w.waitReady("p"); now.UID != next.UID || now.DeletionTimestamp != nil {
		w.Fatal("an action for the old pod was applied to the new one")
	}
	w.delete("p")
	w.waitGone("p", next.UID)
}

// kwok watches nodes and pods separately, so events may arrive in either order.
func TestDeletionRightAfterNodeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := w
	elsewhere.node = w.node + "-elsewhere"
	w.createNode(kubelet.NewNode(elsewhere.node))
	for range rounds {
		pod := w.runningPod("p", "web:1")
		w.whileStopped(func() {
			w.check(simulator.DisconnectNode(t.Context(), w.node))
			w.delete("p")
		})
		elsewhere.sync()
		now := w.waitPod("p", "it is there", func(*corev1.Pod) bool { return true })
		if now.UID != pod.UID || now.Status.Phase != corev1.PodRunning {
			t.Fatalf("the pod has phase %s, want Running: its node has no kubelet", now.Status.Phase)
		}
		w.check(simulator.ReconnectNode(t.Context(), w.node))
		w.waitGone("p", pod.UID)
	}
}

// kwok may have decided that a pod is Ready just before it is held back, and write it just after.
func TestDelayReadinessOfPodThatStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 * rounds {
		pod := w.pod("p", "web:1")
		<-time.After(time.Duration(i) * 300 * time.Microsecond) // at every stage of its start
		release, err := simulator.DelayReadiness(t.Context(), w.namespace, "app=p")
		w.check(err)
		w.sync()
		now := w.waitPod("p", "it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		if ready(now) == corev1.ConditionTrue {
			t.Fatal("the pod is Ready although it is held back")
		}
		w.check(release(t.Context()))
		w.waitReady("p")
		w.delete("p")
		w.waitGone("p", pod.UID)
	}
}
