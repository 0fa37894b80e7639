package configrollout_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// replaceWorkload removes the operator's annotations, as `kubectl replace` and `helm upgrade --force` do.
func replaceWorkload(k *testkit.K, d *appsv1.Deployment) {
	k.Update(d, func() {
		maps.DeleteFunc(d.Annotations, func(name, _ string) bool {
			return strings.HasPrefix(name, prefix) && name != prefix+"enabled"
		})
		delete(d.Spec.Template.Annotations, prefix+"config-digest")
	})
}

// The replacement of a whole workload removes the record. A pending change is not lost.
func TestReplacedWhilePending(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	k.Update(d, func() { d.Spec.Paused = true })
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending(), state("Paused"))
	k.Update(d, func() {
		maps.DeleteFunc(d.Annotations, func(name, _ string) bool {
			return strings.HasPrefix(name, prefix) && name != prefix+"enabled"
		})
		d.Spec.Paused = false
	})
	k.Eventually(d, rolledFrom(""), result("Completed"))
	waitIdle(k, op)
}

// A manager that replaces the workload after each write of the operator causes no write loop.
func TestRepeatedReplacement(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	op.Recorder().Reset()
	ctx, cancel := context.WithTimeout(k.Context(), 8*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		k.Get(d)
		if observedDigest(d) != "" {
			replaceWorkload(k, d)
		}
		<-time.After(20 * time.Millisecond)
	}
	if w := writes(op); len(w) > 4 {
		t.Errorf("it wrote %d times within 8 s", len(w))
	}
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""))
}
