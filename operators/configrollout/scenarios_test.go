package configrollout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Hard scenario 1: many ConfigMaps change while the operator is down, some of them only in their metadata. Exactly the
// affected workloads are rolled, each once, and another restart writes nothing.
func TestDownDuringChange(t *testing.T) {
	t.Parallel()
	maps, users := 100, 5
	if testing.Short() {
		maps, users = 10, 2
	}
	k := testkit.New(t)
	k.Timeout = 5 * time.Minute
	many := func(o *configrollout.Options) {
		o.MaxConcurrent = 50
		o.MaxConcurrentPerNamespace = 50
	}
	op := start(t, k, many)
	createMany(k, maps, users)
	waitAll(k, "adopted", func(d *appsv1.Deployment) bool { return observedDigest(d) != "" && digestOf(d) == "" })
	op.Kill()
	changeSome(k, maps*4/10)
	changed := func(i int) bool { return i < maps*4/10 && i%4 != 0 }
	op = start(t, k, many)
	waitAll(k, "as they should be", func(d *appsv1.Deployment) bool {
		var i, j int
		if _, err := fmt.Sscanf(d.Name, "d-%d-%d", &i, &j); err != nil {
			return false
		}
		if !changed(i) {
			return digestOf(d) == "" && observedDigest(d) != ""
		}
		return digestOf(d) != "" && !pending(d) && completed(d)
	})
	waitIdle(k, op)
	op.Stop()
	op = start(t, k, many)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after another restart it writes %d times, such as %v", len(w), w[0])
	}
	count := templatesByApp(t, k)
	for i := range maps {
		want := 1
		if changed(i) {
			want = 2
		}
		for j := range users {
			if name := fmt.Sprintf("d-%d-%d", i, j); count[name] != want {
				t.Errorf("%s has %d ReplicaSets, want %d", name, count[name], want)
			}
		}
	}
}

// templatesByApp counts the ReplicaSets of each Deployment.
func templatesByApp(t *testing.T, k *testkit.K) map[string]int {
	t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := k.Client.List(k.Context(), sets, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, set := range sets.Items {
		count[set.Labels["app"]]++
	}
	return count
}

// createMany creates ConfigMaps and, for each, Deployments that use it. One Deployment of each has a pod.
func createMany(k *testkit.K, maps, users int) {
	for i := range maps {
		k.Apply(configMap(fmt.Sprintf("conf-%d", i), "a", "1"))
		for j := range users {
			d := deployment(fmt.Sprintf("d-%d-%d", i, j), fmt.Sprintf("conf-%d", i))
			if j > 0 {
				d.Spec.Replicas = new(int32(0))
			}
			k.Apply(d)
		}
	}
}

// changeSome changes n ConfigMaps, every fourth of them only in its labels.
func changeSome(k *testkit.K, n int) {
	for i := range n {
		name := fmt.Sprintf("conf-%d", i)
		if i%4 != 0 {
			change(k, name, "a", "2")
			continue
		}
		cm := configMap(name)
		k.Update(cm, func() { cm.Labels = map[string]string{"l": "1"} })
	}
}

func completed(d *appsv1.Deployment) bool { return result("Completed").Missing(d) == "" }

// waitAll waits until each Deployment of the namespace meets the condition.
func waitAll(k *testkit.K, what string, is func(*appsv1.Deployment) bool) {
	k.Wait("all to be "+what, func(ctx context.Context) error {
		list := &appsv1.DeploymentList{}
		if err := k.Client.List(ctx, list, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		missing, example := 0, ""
		for i := range list.Items {
			if !is(&list.Items[i]) {
				missing++
				example = list.Items[i].Name
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d are not, such as %s", missing, example)
		}
		return nil
	})
}

// Hard scenario 2: a burst of writes to six ConfigMaps of one Deployment, and of its image, ends in at most two more
// ReplicaSets and in pods with the last content. This also holds if the operator is killed meanwhile.
func TestBurst(t *testing.T) {
	t.Parallel()
	const maps, writes, pause, quietPeriod = 6, 20, 50 * time.Millisecond, 5 * time.Second
	k := testkit.New(t)
	op := start(t, k)
	d := deployment("a", "conf-0", "quiet-period", quietPeriod.String())
	for i := range maps {
		name := fmt.Sprintf("conf-%d", i)
		k.Apply(configMap(name, "a", "1"))
		d.Spec.Template.Spec.Containers[0].EnvFrom = append(d.Spec.Template.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	adopt(k, d)
	began, ticks := time.Now(), time.NewTicker(pause)
	defer ticks.Stop()
	for i := range writes {
		for j := range maps {
			change(k, fmt.Sprintf("conf-%d", j), "a", fmt.Sprintf("burst %d", i))
		}
		if i == writes/2 {
			k.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:1.22" })
		}
		<-ticks.C
	}
	took := time.Since(began)
	k.Eventually(d, isPending())
	op.Kill() // during the quiet period
	if k.Get(d); d.Spec.Paused {
		t.Error("it is paused")
	}
	op = start(t, k)
	k.Eventually(d, rolledFrom(""), result("Completed"), testkit.Ready())
	waitIdle(k, op)
	atMost := 3 + int(took/(10*quietPeriod)) // on a slow machine the burst may last longer than the maximal delay
	if n := replicaSets(t, k, "a"); n > atMost {
		t.Errorf("it has %d ReplicaSets, the first one among them, want %d at most", n, atMost)
	}
	last := digestOf(d)
	other := deployment("b", "conf-0")
	other.Spec.Template.Spec = *d.Spec.Template.Spec.DeepCopy()
	adopt(k, other)
	if observedDigest(other) != last {
		t.Errorf("its pods run with %s, and the last content is %s", last, observedDigest(other))
	}
}
