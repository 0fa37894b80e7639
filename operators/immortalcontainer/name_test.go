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

// A pod of somebody else that has the name is never touched; the object says so and goes on when the pod is gone.
func TestSquatter(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	squatter := podOf(k, "a")
	squatter.Spec.Containers = []corev1.Container{{Name: "mine", Image: "mine:1"}}
	k.Apply(squatter)
	k.Eventually(squatter, testkit.Ready())
	version := squatter.ResourceVersion

	ic := newContainer("a")
	k.Apply(ic)
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "PodNameConflict"),
		phase(v1alpha1.PhaseBlocked), starts(0))
	k.Wait("the last write", func(ctx context.Context) error { return settled(ctx, k, op) })
	nothing(t, k, op, 500*time.Millisecond)
	k.Get(squatter)
	if squatter.ResourceVersion != version {
		t.Errorf("the squatter was written: resourceVersion %s, was %s", squatter.ResourceVersion, version)
	}

	k.Delete(squatter)
	k.Eventually(ic, testkit.Ready(), starts(1))
}

// An ImmortalContainer that is created anew while the pod of the former one is still ending waits for that.
func TestRecreatedWhileTheOldPodEnds(t *testing.T) {
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

// A pod that the API server refuses is said with the server's own words, and tried again.
func TestRefusedPod(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Without("a quota refuses the pod", testkit.Forbidden))
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
