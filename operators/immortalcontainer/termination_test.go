package immortalcontainer_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// After every kind of termination a new pod starts, it is counted once, and the status has the reason.
func TestEveryTermination(t *testing.T) {
	t.Parallel()
	fail := func(mode kubelet.Mode) func(*testing.T, *testkit.K, *corev1.Pod) {
		return func(t *testing.T, k *testkit.K, pod *corev1.Pod) {
			t.Helper()
			selector := "controller=" + pod.Labels["controller"]
			if err := kubeletOf(t, k).Fail(k.Context(), k.Namespace, selector, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		kill   func(*testing.T, *testkit.K, *corev1.Pod)
		reason string
	}{
		"deleted": {func(_ *testing.T, k *testkit.K, pod *corev1.Pod) { k.Delete(pod) }, "Deleted"},
		"deleted by force": {func(_ *testing.T, k *testkit.K, pod *corev1.Pod) {
			k.Delete(pod, client.GracePeriodSeconds(0))
		}, "Deleted"},
		"drained": {func(t *testing.T, k *testkit.K, pod *corev1.Pod) {
			t.Helper()
			clientset, err := kubernetes.NewForConfig(k.Config)
			if err != nil {
				t.Fatal(err)
			}
			// A simulated container ends at once. The finalizer stands for a grace period, so that the operator observes
			// the eviction.
			k.Eventually(pod, counted())
			k.Update(pod, func() { pod.Finalizers = []string{"test.homeostat.dev/grace-period"} })
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
			if err := clientset.PolicyV1().Evictions(pod.Namespace).Evict(k.Context(), eviction); err != nil {
				t.Fatal(err)
			}
			ic := newContainer("a")
			k.Eventually(ic, testkit.Condition("Ready", metav1.ConditionFalse))
			k.Update(pod, func() { pod.Finalizers = nil })
		}, "Drained"},
		"ended with success":    {fail(kubelet.Succeeded), "Completed"},
		"ended with an error":   {fail(kubelet.Failed), "Error"},
		"evicted by its node":   {fail(kubelet.Evicted), "Evicted"},
		"killed, exit code 137": {fail(kubelet.FailedWith(137)), "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(k)
			ic := withShortBackoff("a")
			pod := ready(k, ic)
			c.kill(t, k, pod)
			k.Eventually(ic, starts(2), testkit.Ready(), lastTermination(c.reason))
			if uid := ic.Status.LastTermination.PodUID; uid != pod.UID {
				t.Errorf("last termination is that of pod %s, want %s", uid, pod.UID)
			}
		})
	}
}

// The kubelet restarts a container inside its pod: the pod stays, and no start is counted.
func TestCrashLoopInsideThePod(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	ic := newContainer("a")
	pod := ready(k, ic)
	nodes := kubeletOf(t, k)
	if err := nodes.Fail(k.Context(), k.Namespace, "controller=a", kubelet.CrashLoop); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, phase(v1alpha1.PhaseBackingOff), testkit.Condition("Ready", metav1.ConditionFalse), starts(1))
	if err := nodes.Heal(k.Context(), k.Namespace, "controller=a"); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Ready(), starts(1))
	k.Eventually(pod, testkit.Exists())
}

// The status reports a failed image pull, and a correct image is enough.
func TestWrongImage(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	ic := newContainer("a")
	ic.Spec.Image = "does-not-exist:1"
	k.Apply(ic)
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "ImagePullBackOff"), starts(1))
	k.Update(ic, func() { ic.Spec.Image = "nginx:1" })
	k.Eventually(ic, testkit.Ready(), starts(1))
}

// The backoff grows with each pod that ends at once, and the status has the time of the next attempt.
func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	ic := newContainer("a")
	ic.Spec.Restart.InitialBackoff = metav1.Duration{Duration: time.Second}
	ic.Spec.Restart.MaxBackoff = metav1.Duration{Duration: time.Hour}
	ready(k, ic)
	nodes := kubeletOf(t, k)
	for n := int64(1); n <= 2; n++ {
		if err := nodes.Fail(k.Context(), k.Namespace, "controller=a", kubelet.Failed); err != nil {
			t.Fatal(err)
		}
		k.Eventually(ic, starts(n+1), testkit.Ready())
	}
	if failures := ic.Status.ConsecutiveFailures; failures != 2 {
		t.Errorf("consecutiveFailures %d, want 2", failures)
	}
	k.UpdateStatus(ic, func() { ic.Status.ConsecutiveFailures = 9 }) // the next backoff is longer than the test
	failed := time.Now()
	if err := nodes.Fail(k.Context(), k.Namespace, "controller=a", kubelet.Failed); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, phase(v1alpha1.PhaseBackingOff), testkit.Condition("BackingOff", metav1.ConditionTrue))
	k.Eventually(podOf(k, "a"), testkit.Gone())
	if next := ic.Status.NextStartTime; next == nil || next.Sub(failed) < 511*time.Second {
		t.Errorf("nextStartTime %v, want 512 s, the tenth backoff, after %v", next, failed)
	}
	if failures := ic.Status.ConsecutiveFailures; failures != 10 {
		t.Errorf("consecutiveFailures %d, want 10", failures)
	}
	k.Eventually(ic, testkit.Match("no pod", func(ic *v1alpha1.ImmortalContainer) bool { return ic.Status.CurrentPod == "" }))
	k.Wait("the last write", func(ctx context.Context) error { return waitIdle(ctx, k, op) })
	expectNoRequests(t, k, op, 300*time.Millisecond)
	k.Update(ic, func() { ic.Spec.Image = "nginx:2" }) // a new specification is tried at once
	k.Eventually(ic, testkit.Ready(), starts(4))
}

// A lost node may still run the container: by default the pod is not replaced, and the status has the reason.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	start(k)
	ic := newContainer("a")
	pod := ready(k, ic)
	nodes := kubeletOf(t, k)
	if err := nodes.DisconnectNode(k.Context(), pod.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Condition("Ready", metav1.ConditionFalse), starts(1))
	k.Delete(pod)
	k.Consistently(pod, 500*time.Millisecond, testkit.Exists())
	k.Delete(pod, client.GracePeriodSeconds(0)) // as an administrator does for a machine that is gone
	k.Eventually(ic, testkit.Ready(), starts(2))
	replacement := podOf(k, "a")
	k.Get(replacement)
	if replacement.Spec.NodeName == pod.Spec.NodeName {
		t.Errorf("the new pod is on the lost node %s", pod.Spec.NodeName)
	}
}

// With nodeLost Replace, a pod that the control plane removed from a lost node is force deleted 30 seconds after its grace
// period and not before. The next pod starts when it is gone. The operators' clocks are ahead, so that the test does not
// wait.
func TestNodeLostReplace(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	op := k.Run(withClockAhead(20 * time.Second))
	countPods := watchPods(t, k)
	ic := newContainer("a")
	ic.Spec.NodeLost = v1alpha1.NodeLostReplace
	ic.Spec.TerminationGracePeriodSeconds = new(int64(1))
	ic.Spec.Tolerations = []corev1.Toleration{{ // the default ones keep the pod there for five minutes
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(0)),
	}}
	pod := ready(k, ic)
	k.Kubelet.DisconnectNode(pod.Spec.NodeName)
	k.Eventually(ic, lastTermination("NodeLost"), testkit.Condition("Ready", metav1.ConditionFalse), starts(1))
	k.Consistently(pod, 300*time.Millisecond, testkit.Exists())

	op.Stop()
	k.Run(withClockAhead(time.Minute))
	k.Eventually(ic, testkit.Ready(), starts(2), lastTermination("NodeLost"))
	if uid := ic.Status.LastTermination.PodUID; uid != pod.UID {
		t.Errorf("last termination is that of pod %s, want %s", uid, pod.UID)
	}
	replacement := podOf(k, "a")
	k.Get(replacement)
	if replacement.Spec.NodeName == pod.Spec.NodeName {
		t.Errorf("the new pod is on the lost node %s", pod.Spec.NodeName)
	}
	if most, all := countPods(replacement.UID); most != 1 || all != 2 {
		t.Errorf("there were %d pods, and %d at a time; want 2, one at a time", all, most)
	}
}

// withClockAhead returns the operator with a clock that is ahead.
func withClockAhead(of time.Duration) *sdk.Operator[*v1alpha1.ImmortalContainer] {
	op := *immortalcontainer.Operator
	op.Reconcile = func(ctx context.Context, p *sdk.Pass[*v1alpha1.ImmortalContainer]) error {
		p.Now = p.Now.Add(of)
		return immortalcontainer.Operator.Reconcile(ctx, p)
	}
	return &op
}
