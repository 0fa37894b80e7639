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

var walkSeed = flag.Uint64("walk.seed", 0, "what TestWhateverHappens begins its choices with; 0 is by chance")

// Whatever users do, in whatever order, and whenever the operator is killed: in the end the workload is brought to the
// content that there is, nothing is pending, and nothing is written any more.
func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	seed := *walkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the choices are those of -walk.seed=%d", seed)
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
		"rest":     func() { rest(k, op) },
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
	rest(k, op)
	other := deployment("b", "conf")
	other.Spec.Template.Spec = *d.Spec.Template.Spec.DeepCopy()
	adopt(k, other)
	k.Eventually(d, testkit.Ready(), state(""), testkit.Match("brought to what there is", func(d *appsv1.Deployment) bool {
		return known(d) == known(other) && !pending(d)
	}))
	rest(k, op)
	op.Stop()
	op = start(t, k)
	rest(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
}
