package configrollout_test

import (
	"flag"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

var walkSeed = flag.Uint64("walk.seed", 0, "seed of TestConvergesUnderRandomEdits; 0 is a random one")

// After random edits and crashes of the operator the workload converges: it has the present content, no rollout is
// pending, and the operator is idle.
func TestConvergesUnderRandomEdits(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the seed is -walk.seed=%d", seed)
	choose := rand.New(rand.NewPCG(seed, 0))
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "0"))
	d := deployment("a", "conf")
	d.Spec.Template.Spec.Containers[0].EnvFrom = optional("optional")
	adopt(k, d)
	value := func() string { return strconv.Itoa(choose.IntN(3)) }
	things := map[string]func(){
		"change":   func() { change(k, "conf", "a", value()) },
		"more":     func() { change(k, "conf", "b", value()) },
		"appear":   func() { k.Apply(configMap("optional", "a", value())) },
		"label":    func() { cm := configMap("conf"); k.Update(cm, func() { cm.Labels = map[string]string{"l": value()} }) },
		"image":    func() { k.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:" + value() }) },
		"scale":    func() { k.Update(d, func() { d.Spec.Replicas = new(int32(choose.IntN(3))) }) },
		"pause":    func() { k.Update(d, func() { d.Spec.Paused = true }) },
		"continue": func() { k.Update(d, func() { d.Spec.Paused = false }) },
		"leave":    func() { k.Update(d, func() { d.Annotations[prefix+"enabled"] = "false" }) },
		"enter":    func() { k.Update(d, func() { d.Annotations[prefix+"enabled"] = "true" }) },
		"kill":     func() { op.Kill(); op = start(t, k) },
		"rest":     func() { waitIdle(k, op) },
	}
	names := []string{
		"change", "more", "appear", "label", "image", "scale", "pause", "continue", "leave", "enter", "kill", "rest",
	}
	for range 40 {
		name := names[choose.IntN(len(names))]
		t.Log(name)
		things[name]()
	}
	things["continue"]()
	things["enter"]()
	waitIdle(k, op)
	other := deployment("b", "conf")
	other.Spec.Template.Spec = *d.Spec.Template.Spec.DeepCopy()
	adopt(k, other)
	k.Eventually(d, testkit.Ready(), state(""), testkit.Match("brought to what there is", func(d *appsv1.Deployment) bool {
		return observedDigest(d) == observedDigest(other) && !pending(d)
	}))
	waitIdle(k, op)
	op.Stop()
	op = start(t, k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
}
