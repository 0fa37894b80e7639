package configrollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A failure of an earlier content does not concern the repaired content. Kubernetes reports the exceeded deadline until
// there is progress; with Recreate, that is after the deletion of the last pod.
func TestRepairedAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Hold", "Rollback"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Timeout = failureTimeout
			op := start(t, k)
			k.Apply(configMap("conf", "a", "1"))
			d := deployment("a", "conf", "on-failure", policy)
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			withShortDeadline(d)
			adopt(k, d)
			release := k.Kubelet.DelayReadiness("app=a")
			change(k, "conf", "a", "fatal")
			k.Eventually(d, result(map[string]string{"Hold": "Failed", "Rollback": "RolledBack"}[policy]))
			reportExceeded(k, d)
			before := observedDigest(d)
			goOn := holdPods(t, k, "a")
			change(k, "conf", "a", "repaired")
			k.Eventually(d, testkit.Match("repaired", func(d *appsv1.Deployment) bool {
				return observedDigest(d) != before && !pending(d) && d.Status.ObservedGeneration == d.Generation
			}))
			waitIdle(k, op)
			k.Get(d)
			if r := lastRollout(t, d); r.Result != "" {
				t.Errorf("before there is any pod of it, the rollout is %s", r.Result)
			}
			release()
			goOn()
			k.Eventually(d, result("Completed"), testkit.Ready())
		})
	}
}

// reportExceeded sets the status of a Deployment whose only pod did not become ready in time, and gives the next rollout
// more time than the test takes. It writes the condition itself: if the deployment controller has a conflict when it writes
// that a rollout has started, it does not repeat that, and reports no exceeded deadline.
func reportExceeded(k *testkit.K, d *appsv1.Deployment) {
	k.Update(d, func() { d.Spec.ProgressDeadlineSeconds = new(int32(600)) })
	k.Eventually(d, testkit.Match("observed, with one pod", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1
	}))
	k.UpdateStatus(d, func() {
		d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing
		})
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
			LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		})
	})
}

// holdPods blocks the deletion of the pods of an app until release is called.
func holdPods(t *testing.T, k *testkit.K, app string) (goOn func()) {
	t.Helper()
	list := &corev1.PodList{}
	if err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace), client.MatchingLabels{"app": app}); err != nil {
		t.Fatal(err)
	}
	set := func(finalizers string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		for i := range list.Items {
			err := k.Client.Patch(k.Context(), list.Items[i].DeepCopy(), patch)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // a pod of the failed rollout may be ending
				t.Fatal(err)
			}
		}
	}
	set(`["example.com/slow"]`)
	return func() { set("null") }
}

// A failure holds all users of any of its sources, also if the sources have many long names.
func TestHeldByOneOfManySources(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = failureTimeout
	start(t, k, oneAtATime)
	bad := deployment("bad", "conf", "quiet-period", "2s", "priority", "1")
	withShortDeadline(bad)
	k.Apply(configMap("conf", "a", "1"))
	var names []string
	for i := range 8 {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("x", 240))
		names = append(names, name)
		k.Apply(configMap(name, "a", "1"))
		bad.Spec.Template.Spec.Containers[0].EnvFrom = append(bad.Spec.Template.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	user := deployment(strings.Repeat("u", 63), names[7], "quiet-period", "4s")
	adopt(k, bad, user)
	k.Kubelet.DelayReadiness("app=bad")
	for _, name := range names {
		change(k, name, "a", "2")
	}
	k.Eventually(bad, result("Failed"))
	if r := lastRollout(t, bad); len(r.Sources) == 0 || len(r.Sources) == len(names) {
		t.Errorf("of %d sources it names %d", len(names), len(r.Sources))
	}
	k.Eventually(user, state("RolloutHeld"))
}

// A StatefulSet does not replace an unready pod; the user is asked to delete it. The new content does not count as failed,
// and other workloads do not wait.
func TestBrokenPodOfAStatefulSet(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{"Hold": "Failed", "Rollback": "RolledBack"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			shortDeadline := func(o *configrollout.Options) { o.RolloutDeadline = 2 * time.Second }
			op := start(t, k, oneAtATime)
			k.Apply(configMap("conf", "a", "1"))
			set, d := statefulSet("set", "conf", "on-failure", policy), deployment("d", "conf", "quiet-period", "1h")
			adopt(k, set, d)
			release := k.Kubelet.DelayReadiness("app=set,controller-revision-hash!=" + set.Status.CurrentRevision)
			change(k, "conf", "a", "fatal")
			k.Eventually(set, rolledFrom(""), testkit.Match("the pod is replaced", func(set *appsv1.StatefulSet) bool {
				return set.Status.ObservedGeneration == set.Generation && set.Status.UpdatedReplicas == 1
			}))
			op.Stop()
			op = start(t, k, oneAtATime, shortDeadline) // the deadline begins when the broken pod is there
			k.Eventually(set, result(want))
			if policy == "Rollback" {
				k.Eventually(set, state("RestartNeeded"))
				waitEvent(k, set, "RestartNeeded")
			}
			k.Update(d, func() { d.Annotations[prefix+"quiet-period"] = "2s" })
			k.Eventually(d, state("RolloutHeld"))
			before := digestOf(set)
			change(k, "conf", "a", "repaired")
			k.Eventually(set, rolledFrom(before), state("RestartNeeded"))
			waitEvent(k, set, "RestartNeeded")
			k.Eventually(d, rolledFrom(""), result("Completed"))
			k.Eventually(set, result("Stuck"), state("RestartNeeded"))
			op.Stop()
			start(t, k, oneAtATime) // the new pod has any time to become ready
			k.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "set-0"}})
			release()
			k.Eventually(set, result("Completed"), state(""), testkit.Ready())
		})
	}
}
