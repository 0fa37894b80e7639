package immortalcontainer_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A foreign pod with the name of ours is never written. The object reports it and converges when the pod is gone.
func TestNameConflict(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	foreign := podOf(k, "a")
	foreign.Spec.Containers = []corev1.Container{{Name: "mine", Image: "mine:1"}}
	k.Apply(foreign)
	k.Eventually(foreign, testkit.Ready())
	version := foreign.ResourceVersion

	ic := newContainer("a")
	k.Apply(ic)
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "PodNameConflict"),
		phase(v1alpha1.PhaseBlocked), starts(0))
	k.Wait("the last write", func(ctx context.Context) error { return waitIdle(ctx, k, op) })
	expectNoRequests(t, k, op, 500*time.Millisecond)
	k.Get(foreign)
	if foreign.ResourceVersion != version {
		t.Errorf("the foreign pod was written: resourceVersion %s, was %s", foreign.ResourceVersion, version)
	}

	k.Delete(foreign)
	k.Eventually(ic, testkit.Ready(), starts(1))
}

// A recreated ImmortalContainer waits until the pod of its predecessor is gone.
func TestRecreateWhileOldPodTerminates(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	ic := newContainer("a")
	old := ready(k, ic)
	k.Update(old, func() { old.Finalizers = append(old.Finalizers, "test.homeostat.dev/slow") })
	k.Delete(ic)
	k.Eventually(ic, testkit.Gone())
	k.Eventually(old, testkit.Match("being deleted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }))

	again := newContainer("a")
	k.Apply(again)
	k.Eventually(again, testkit.Reason("Ready", metav1.ConditionFalse, "WaitingForFormer"), starts(0))
	k.Consistently(old, 500*time.Millisecond, testkit.Exists())
	k.Update(old, func() { old.Finalizers = nil })
	k.Eventually(again, testkit.Ready(), starts(1))
}

// A rejected pod is reported with the API server's message, and retried.
func TestRejectedPod(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("a quota refuses the pod", testkit.Forbidden))
	start(k)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	k.Apply(quota)
	k.Eventually(quota, testkit.Match("in force", func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 }))
	ic := newContainer("a")
	k.Apply(ic)
	k.Eventually(ic, testkit.Reason("Stalled", metav1.ConditionTrue, "PodRejected"),
		phase(v1alpha1.PhaseFailed), starts(0))
	k.Delete(quota)
	k.Eventually(ic, testkit.Ready(), starts(1))
}
