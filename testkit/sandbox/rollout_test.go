package sandbox_test

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A new revision takes over only when its process is ready.
func rollout(b *emptyCluster) {
	d := b.deploy("rollout", withoutElection)
	b.available(d, 1)
	good := b.processes("rollout")[0]
	bad := b.everReady(good.Name)
	args := &d.Spec.Template.Spec.Containers[0].Args
	before := d.DeepCopy()
	*args = append(*args, "--no-such-flag")
	b.do(b.c.Patch(b.Context(), d, client.MergeFrom(before)))
	until(b.T, "the bad revision crashes", func() bool {
		return slices.ContainsFunc(b.processes("rollout"), func(p sandbox.PodProcess) bool { return p.Restarts > 1 })
	})
	if names := bad(); len(names) > 0 {
		b.Errorf("pods %v were Ready", names)
	}
	if pod := b.pods("rollout"); !slices.ContainsFunc(pod, func(p corev1.Pod) bool { return p.Name == good.Name }) {
		b.Errorf("the good revision is gone")
	}
	before, args = d.DeepCopy(), &d.Spec.Template.Spec.Containers[0].Args
	(*args)[len(*args)-1] = "--greeting=next"
	b.do(b.c.Patch(b.Context(), d, client.MergeFrom(before)))
	b.available(d, 1)
	until(b.T, "only the new pod is left", func() bool {
		now := b.processes("rollout")
		return len(now) == 1 && now[0].Name != good.Name
	})
	if message, _ := b.widget("rollout"); !strings.HasPrefix(message, "next ") {
		b.Errorf("the last revision does not work: %s", message)
	}
}

// everReady watches pods until the returned function is called, which returns the others that were Ready meanwhile.
func (b *emptyCluster) everReady(but string) func() []string {
	b.Helper()
	c, err := client.NewWithWatch(b.s.Config(), client.Options{})
	b.do(err)
	w, err := c.Watch(b.Context(), &corev1.PodList{}, client.MatchingLabels{"app": "rollout"})
	b.do(err)
	names := make(chan []string, 1)
	go func() {
		var ready []string
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if ok && pod.Name != but && readyCondition(pod) == corev1.ConditionTrue {
				ready = append(ready, pod.Name)
			}
		}
		names <- ready
	}()
	return func() []string { w.Stop(); return <-names }
}
