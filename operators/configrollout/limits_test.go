package configrollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// deployMany creates Deployments that use one ConfigMap, and returns them when the operator has recorded all.
func deployMany(k *testkit.K, n int, change ...func(*appsv1.Deployment)) []*appsv1.Deployment {
	k.Apply(configMap("conf", "a", "1"))
	fleet := make([]*appsv1.Deployment, n)
	for i := range fleet {
		fleet[i] = deployment(fmt.Sprintf("d%02d", i), "conf")
		fleet[i].Spec.Template.Labels["of"] = "fleet"
		for _, f := range change {
			f(fleet[i])
		}
		k.Apply(fleet[i])
	}
	for _, d := range fleet {
		k.Eventually(d, adopted(), testkit.Ready())
	}
	return fleet
}

// withShortDeadline gives a rollout a few seconds for progress, but more than one after the first reconcile by Kubernetes.
// Kubernetes counts whole seconds, and enqueues a check with less than one second left; hundreds of conflicts can delay
// that for a minute.
func withShortDeadline(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(8)) }

// failureTimeout is the timeout of tests with such a rollout. The operator waits another eight seconds for a report by
// Kubernetes, so that a failure alone takes up to 16 seconds.
const failureTimeout = 2 * time.Minute

// The number of concurrent rollouts is limited, and the next one starts when one is complete.
func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	all := deployMany(k, 8)
	release := k.Kubelet.DelayReadiness("of=fleet")
	change(k, "conf", "a", "2")
	k.Wait("two rollouts", func(context.Context) error {
		if n := rolled(k, 0); n != 2 {
			return fmt.Errorf("%d are rolled", n)
		}
		return nil
	})
	waiting := 0
	k.Wait("the others to wait", func(context.Context) error {
		waiting = 0
		for _, d := range all {
			if k.Get(d); pending(d) {
				waiting++
			}
		}
		if waiting != 6 {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
	for range 20 { // the limit holds all the time
		if n := rolled(k, 0); n != 2 {
			t.Fatalf("%d are rolled at once, want 2", n)
		}
	}
	release()
	for _, d := range all {
		k.Eventually(d, rolledFrom(""), result("Completed"))
	}
}

// rolled counts the Deployments with a digest in the template.
func rolled(k *testkit.K, atLeast int) (n int) {
	list := &appsv1.DeploymentList{}
	if err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace)); err != nil {
		return -1
	}
	for i := range list.Items {
		if digestOf(&list.Items[i]) != "" {
			n++
		}
	}
	return max(n, atLeast)
}

// A greater priority is rolled first, then the longest wait, also after a restart.
func TestOrder(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	one := func(o *configrollout.Options) { o.MaxConcurrentPerNamespace = 1 }
	op := start(t, k, one)
	for _, name := range []string{"first", "second", "third", "urgent"} {
		k.Apply(configMap(name, "a", "1"))
	}
	urgent := deployment("urgent", "urgent", "priority", "10")
	first, second, third := deployment("a-first", "first"), deployment("c-second", "second"), deployment("b-third", "third")
	adopt(k, first, second, third, urgent)
	release := k.Kubelet.DelayReadiness("app=a-first")
	change(k, "first", "a", "2")
	k.Eventually(first, rolledFrom(""))
	for _, d := range []*appsv1.Deployment{second, third, urgent} {
		change(k, d.Spec.Template.Spec.Volumes[0].ConfigMap.Name, "a", "2")
		k.Eventually(d, isPending())
	}
	op.Kill()
	op = start(t, k, one)
	waitIdle(k, op)
	release()
	var times []time.Time
	for _, d := range []*appsv1.Deployment{first, urgent, second, third} {
		k.Eventually(d, rolledFrom(""), result("Completed"))
		times = append(times, lastRollout(t, d).Time)
	}
	for i := range times[1:] {
		if !times[i].Before(times[i+1]) {
			t.Errorf("they were rolled at %v", times)
		}
	}
}

// Hard scenario 3: a failed rollout holds the other workloads. They report it, and continue after the repair.
func TestBadConfigStopsRollouts(t *testing.T) {
	t.Parallel()
	n := 60
	if testing.Short() {
		n = 12
	}
	k := testkit.New(t)
	k.Timeout = failureTimeout
	op := start(t, k)
	all := deployMany(k, n, withShortDeadline)
	release := k.Kubelet.DelayReadiness("of=fleet")
	change(k, "conf", "a", "fatal")
	var broken, held []*appsv1.Deployment
	k.Wait("all but two to be held", func(context.Context) error {
		broken, held = nil, nil
		for _, d := range all {
			k.Get(d)
			switch {
			case digestOf(d) != "":
				broken = append(broken, d)
			case d.Annotations[prefix+"state"] != "":
				held = append(held, d)
			}
		}
		if len(broken)+len(held) != n {
			return fmt.Errorf("%d are broken and %d held", len(broken), len(held))
		}
		return nil
	})
	if len(broken) > 2 {
		t.Fatalf("%d were broken, want 2", len(broken))
	}
	for _, d := range broken {
		k.Eventually(d, result("Failed"), state("RolloutFailed"))
		waitEvent(k, d, "RolloutFailed")
	}
	for _, d := range held {
		k.Eventually(d, state("RolloutHeld: others failed with the present content of ConfigMap/conf"))
	}
	if note := waitEvent(k, held[0], "RolloutHeld"); !strings.Contains(note, "(Deployment d") {
		t.Errorf("it is told as %q", note)
	}
	if got := gauge(t, "configrollout_held", k.Namespace); got != float64(len(held)) {
		t.Errorf("the metric says that %v are held, want %d", got, len(held))
	}
	op.Kill()
	op = start(t, k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
	release()
	change(k, "conf", "a", "repaired")
	for _, d := range all {
		k.Eventually(d, rolledFrom(""), result("Completed"), state(""))
	}
}

// With Continue a workload neither holds others nor is held.
func TestContinueOnFailure(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = failureTimeout
	start(t, k, func(o *configrollout.Options) { o.MaxConcurrentPerNamespace = 1 })
	k.Apply(configMap("conf", "a", "1"))
	bad := deployment("bad", "conf", "quiet-period", "10ms")
	cautious := deployment("cautious", "conf", "quiet-period", "1s")
	bold := deployment("bold", "conf", "quiet-period", "1s", "on-failure", "Continue")
	for _, d := range []*appsv1.Deployment{bad, cautious, bold} {
		withShortDeadline(d)
	}
	adopt(k, bad, cautious, bold)
	k.Kubelet.DelayReadiness("app=bad")
	change(k, "conf", "a", "2")
	k.Eventually(bad, result("Failed"))
	k.Eventually(bold, rolledFrom(""), result("Completed"))
	k.Eventually(cautious, state("RolloutHeld"))
	k.Update(bad, func() { bad.Annotations[prefix+"on-failure"] = "Continue" })
	k.Eventually(cautious, rolledFrom(""), result("Completed"), state(""))
}

// A recovered or deleted workload no longer holds others.
func TestHeldUntilRecovery(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = failureTimeout
	start(t, k, func(o *configrollout.Options) { o.MaxConcurrentPerNamespace = 1 })
	all := deployMany(k, 3, withShortDeadline, func(d *appsv1.Deployment) {
		d.Annotations[prefix+"quiet-period"] = map[string]string{"d00": "10ms", "d01": "1s", "d02": "2s"}[d.Name]
		d.Annotations[prefix+"priority"] = map[string]string{"d00": "3", "d01": "2", "d02": "1"}[d.Name]
	})
	recovers := k.Kubelet.DelayReadiness("app=d00")
	k.Kubelet.DelayReadiness("app=d01")
	change(k, "conf", "a", "2")
	k.Eventually(all[0], result("Failed"))
	k.Eventually(all[1], state("RolloutHeld"))
	k.Eventually(all[2], state("RolloutHeld"))
	recovers()
	k.Eventually(all[0], result("Completed"), state(""))
	k.Eventually(all[1], result("Failed"))
	k.Eventually(all[2], state("RolloutHeld"), isPending())
	k.Delete(all[1])
	k.Eventually(all[2], rolledFrom(""), result("Completed"))
}

// StatefulSets and DaemonSets have a deadline by the operator's clock, since Kubernetes has none for them.
func TestDeadlineOfOtherKinds(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k, func(o *configrollout.Options) { o.RolloutDeadline = 2 * time.Second })
	k.Apply(configMap("conf", "a", "1"))
	set := statefulSet("set", "conf")
	adopt(k, set)
	release := k.Kubelet.DelayReadiness("app=set")
	change(k, "conf", "a", "2")
	k.Eventually(set, rolledFrom(""), result("Failed"), state("RolloutFailed"))
	release()
	k.Eventually(set, result("Completed"), state(""))
}

// With Rollback the template is restored, and the same content is not tried again.
func TestRollbackOnFailure(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = failureTimeout
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "on-failure", "Rollback")
	adopt(k, d)
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""), result("Completed"))
	good := digestOf(d)
	k.Update(d, func() { withShortDeadline(d) })
	release := k.Kubelet.DelayReadiness("app=a")
	change(k, "conf", "a", "fatal")
	k.Eventually(d, rolledFrom(good))
	k.Eventually(d, result("RolledBack"), state("RolledBack"))
	if digestOf(d) != good {
		t.Errorf("the template has digest %q, want %q", digestOf(d), good)
	}
	waitEvent(k, d, "RolledBack")
	waitIdle(k, op)
	op.Kill()
	op = start(t, k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
	release()
	k.Update(d, func() { d.Spec.ProgressDeadlineSeconds = new(int32(600)) })
	before := podNames(t, k, "a")
	change(k, "conf", "a", "2") // the old content: some pods may have started with the failed one
	back := testkit.Match("brought back", func(o client.Object) bool { return observedDigest(o) == good })
	k.Eventually(d, state(""), testkit.Ready(), back)
	for _, name := range podNames(t, k, "a") {
		if slices.Contains(before, name) {
			t.Errorf("pod %s was not replaced", name)
		}
	}
	waitIdle(k, op)
	change(k, "conf", "a", "3")
	k.Eventually(d, rolledFrom(good), result("Completed"), state(""))
}
