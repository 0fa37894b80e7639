package immortalcontainer_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The manifest of the founding article does what the text of the article promises.
func TestTheArticle(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	manifest, err := os.ReadFile("config/samples/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ic := &v1alpha1.ImmortalContainer{}
	if err := yaml.UnmarshalStrict(manifest, ic); err != nil {
		t.Fatal(err)
	}
	first := ready(k, ic)
	if got, want := first.Name, "example-immortal-container-immortalpod"; got != want {
		t.Errorf("pod %s, want %s", got, want)
	}
	if ic.Status.CurrentPod != first.Name || ic.Status.StartTimes != 1 {
		t.Errorf("currentPod %q, startTimes %d; want %q and 1", ic.Status.CurrentPod, ic.Status.StartTimes, first.Name)
	}
	if first.Labels["controller"] != ic.Name || first.Spec.Containers[0].Name != "acontainer" {
		t.Errorf("label controller %q, container %q", first.Labels["controller"], first.Spec.Containers[0].Name)
	}

	k.Delete(first)
	began := time.Now()
	k.Eventually(ic, starts(2), testkit.Ready())
	t.Logf("a new pod ran %s after the first was deleted", time.Since(began).Round(time.Millisecond))
	second := podOf(k, ic.Name)
	k.Eventually(second, testkit.Match("another pod that nothing keeps from being deleted", func(p *corev1.Pod) bool {
		return p.UID != first.UID && len(p.Finalizers) == 0
	}))
}

func TestImageChangeInPlace(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	ic := newContainer("a")
	before := ready(k, ic)
	sent := len(op.Requests())
	k.Update(ic, func() { ic.Spec.Image = "nginx:2" })
	pod := podOf(k, "a")
	k.Eventually(pod, testkit.Match("the new image runs", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.UID == before.UID
	}))
	k.Eventually(ic, testkit.Ready(), starts(1), testkit.Match("restarts", func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.ContainerRestarts == 1
	}))
	for _, r := range op.Requests()[sent:] {
		if r.Verb == "delete" || r.Verb == "create" && r.Resource == "pods" {
			t.Errorf("the image was not changed in place: %s", r)
		}
	}
}

func TestOtherChangesReplacePod(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.ImmortalContainer){
		"environment": func(ic *v1alpha1.ImmortalContainer) { ic.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} },
		"image with strategy Recreate": func(ic *v1alpha1.ImmortalContainer) {
			ic.Spec.UpdateStrategy = v1alpha1.UpdateRecreate
			ic.Spec.Image = "nginx:2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(k)
			ic := newContainer("a")
			before := ready(k, ic)
			k.Update(ic, func() { change(ic) })
			another := func(p *corev1.Pod) bool { return p.UID != before.UID }
			k.Eventually(podOf(k, "a"), testkit.Match("another pod", another))
			k.Eventually(ic, testkit.Ready(), starts(2))
		})
	}
}

// A specification that the API server rejects for a new pod does not end the running one.
func TestRejectedSpecKeepsPod(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the API server is asked whether it would take the pod", testkit.Refused))
	start(k)
	ic := newContainer("a")
	pod := ready(k, ic)
	k.Update(ic, func() {
		ic.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		ic.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	})
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "PodRejected"), starts(1))
	k.Consistently(pod, 500*time.Millisecond, testkit.Match("the same", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp == nil
	}))
	k.Update(ic, func() { ic.Spec.Resources = corev1.ResourceRequirements{} })
	k.Eventually(ic, testkit.Ready(), starts(1))
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	ic := newContainer("a")
	pod := ready(k, ic)
	k.Update(ic, func() { ic.Spec.Suspend = true })
	k.Eventually(pod, testkit.Gone())
	k.Eventually(ic, phase(v1alpha1.PhaseSuspended), starts(1), testkit.Condition("Ready", metav1.ConditionFalse),
		testkit.Condition("Reconciling", metav1.ConditionFalse))
	k.Wait("the last write", func(ctx context.Context) error { return waitIdle(ctx, k, op) })
	expectNoRequests(t, k, op, 300*time.Millisecond)
	k.Update(ic, func() { ic.Spec.Suspend = false })
	k.Eventually(ic, testkit.Ready(), starts(2))
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy v1alpha1.DeletionPolicy
		check  testkit.Check
	}{
		"Delete takes the pod along": {v1alpha1.DeletionDelete, testkit.Gone()},
		"Orphan removes the owner": {v1alpha1.DeletionOrphan, testkit.Match("free", func(p *corev1.Pod) bool {
			return len(p.OwnerReferences) == 0 && p.DeletionTimestamp == nil
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(k)
			ic := newContainer("a")
			ic.Spec.DeletionPolicy = c.policy
			pod := ready(k, ic)
			k.Delete(ic, client.PropagationPolicy(metav1.DeletePropagationBackground))
			k.Eventually(ic, testkit.Gone())
			k.Eventually(pod, c.check)
		})
	}
}

// Pods keep running while the operator is stopped. Terminations in the meantime are recorded after its restart.
func TestPodsOutliveTheOperator(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	ic := newContainer("a")
	pod := ready(k, ic)
	k.Eventually(pod, counted())
	op.Stop()
	k.Consistently(pod, 300*time.Millisecond, testkit.Ready())
	k.Delete(pod)
	k.Eventually(pod, testkit.Gone())
	start(k)
	k.Eventually(ic, starts(2), testkit.Ready())
}
