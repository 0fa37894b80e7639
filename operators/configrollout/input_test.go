package configrollout_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// An invalid value of enabled is reported.
func TestInvalidEnabledAnnotation(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "enabled", "yes")
	k.Apply(d)
	k.Eventually(d, state("InvalidAnnotation: rollout.homeostat.dev/enabled"))
	waitEvent(k, d, "InvalidAnnotation")
	waitIdle(k, op)
	k.Update(d, func() { d.Annotations[prefix+"enabled"] = "true" })
	k.Eventually(d, adopted(), state(""))
	k.Update(d, func() { d.Annotations[prefix+"enabled"] = "no" })
	k.Eventually(d, state("InvalidAnnotation: rollout.homeostat.dev/enabled"))
	k.Update(d, func() { delete(d.Annotations, prefix+"enabled") })
	k.Eventually(d, state(""))
}

// A time in the future, from a wrong clock or a manual edit, does not delay a rollout.
func TestTimesInTheFuture(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	k.Update(d, func() { d.Spec.Paused = true })
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending(), state("Paused"))
	k.Update(d, func() {
		for _, name := range []string{"pending-since", "pending-changed"} {
			d.Annotations[prefix+name] = "2099-01-01T00:00:00.000Z"
		}
		d.Spec.Paused = false
	})
	k.Eventually(d, rolledFrom(""), result("Completed"))
	k.Update(d, func() {
		year := lastRollout(t, d).Time.Format("2006-")
		d.Annotations[prefix+"last-rollout"] = strings.Replace(d.Annotations[prefix+"last-rollout"], year, "2099-", 1)
	})
	k.Eventually(d, testkit.Match("of today", func(d *appsv1.Deployment) bool { return lastRollout(t, d).Time.Year() < 2099 }))
}

// A long value is shortened in messages, because annotations have a size limit.
func TestLongAnnotations(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "on-failure", strings.Repeat("x", 150_000))
	adopt(k, d)
	k.Eventually(d, state("InvalidAnnotation"))
}

// An invalid object name is reported and not requested.
func TestInvalidNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", "Upper_Case", "a%2Fb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(t, k)
			k.Apply(configMap("conf", "a", "1"))
			d := deployment("a", "conf", "configmaps", name)
			adopt(k, d)
			k.Eventually(d, state("InvalidAnnotation"))
		})
	}
}
