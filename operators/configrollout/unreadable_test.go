package configrollout_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A workload with an annotation that cannot be read is not rolled before the correction. Its state and an event name the
// annotation.
func TestUnreadableAnnotationsRollNothing(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k, func(o *configrollout.Options) { o.MaxConcurrentPerNamespace = 10 })
	k.Apply(configMap("conf", "a", "1"))
	var all []*appsv1.Deployment
	for name, value := range map[string]string{
		"dry-run": "TRUE", "window": "0 22 * * 1-5 2h", "quiet-period": "1 hour", "on-failure": "rollback",
		"configmaps": "conf other", "ignore": "Conf", "hot-reload": "*", "dryrun": "true",
	} {
		all = append(all, deployment("of-"+name, "conf", name, value))
	}
	good := deployment("good", "conf", "quiet-period", "1s") // it is rolled later than the others would be
	for _, d := range append(all, good) {
		adopt(k, d)
	}
	change(k, "conf", "a", "2")
	k.Eventually(good, rolledFrom(""), result("Completed"))
	for _, d := range all {
		annotation := prefix + strings.TrimPrefix(d.Name, "of-")
		k.Eventually(d, state("InvalidAnnotation: "+annotation), state("nothing is rolled until it is corrected"))
		if digestOf(d) != "" {
			t.Errorf("%s was rolled", d.Name)
		}
		waitEvent(k, d, "InvalidAnnotation")
		k.Update(d, func() { delete(d.Annotations, annotation) })
	}
	for _, d := range all {
		k.Eventually(d, rolledFrom(""), result("Completed"), state(""))
	}
	waitIdle(k, op)
}

// A value of enabled that cannot be read enables nothing, not even with --all-workloads. The record stays, so that no change
// is lost.
func TestUnreadableEnabledRollsNothing(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k, func(o *configrollout.Options) { o.AllWorkloads = true })
	k.Apply(configMap("conf", "a", "1"))
	never, later := deployment("never", "conf", "enabled", "FALSE"), deployment("later", "conf")
	k.Apply(never)
	adopt(k, later)
	k.Update(later, func() { later.Annotations[prefix+"enabled"] = "off" })
	k.Eventually(later, state("InvalidAnnotation: "+prefix+"enabled"))
	k.Eventually(never, state("InvalidAnnotation: "+prefix+"enabled"))
	change(k, "conf", "a", "2")
	k.Eventually(later, isPending())
	waitIdle(k, op)
	if k.Get(never); observedDigest(never) != "" {
		t.Errorf("it is adopted with %s", observedDigest(never))
	}
	if k.Get(later); digestOf(later) != "" {
		t.Error("it was rolled")
	}
	k.Update(later, func() { later.Annotations[prefix+"enabled"] = "true" })
	k.Eventually(later, rolledFrom(""), result("Completed"), state(""))
}

// A ConfigMap with an unreadable annotation ignore is ignored, and its users say so.
func TestUnreadableIgnoreOfAConfigMap(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	conf := configMap("conf", "a", "1")
	conf.Annotations = map[string]string{prefix + "ignore": "True"}
	k.Apply(conf)
	d := deployment("a", "conf")
	adopt(k, d)
	k.Eventually(d, state(`InvalidAnnotation: rollout.homeostat.dev/ignore of ConfigMap/conf: "True" is neither`))
	change(k, "conf", "a", "2")
	waitIdle(k, op)
	if k.Get(d); digestOf(d) != "" || pending(d) {
		t.Error("it is rolled")
	}
	k.Update(conf, func() { delete(conf.Annotations, prefix+"ignore") })
	k.Eventually(d, state(""))
}

// Without --secrets the annotation secrets has no effect, and its workload says so.
func TestSecretsDisabled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(&corev1.Secret{ObjectMeta: configMap("password").ObjectMeta})
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "secrets", "password")
	adopt(k, d)
	k.Eventually(d, state("SecretsDisabled: rollout.homeostat.dev/secrets names Secrets"))
	waitEvent(k, d, "SecretsDisabled")
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""), result("Completed"))
	k.Update(d, func() { delete(d.Annotations, prefix+"secrets") })
	k.Eventually(d, state(""))
}

// Events about a delay that the user asked for are no warnings.
func TestRoutineEventsAreNoWarnings(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	paused, closed := deployment("paused", "conf"), deployment("closed", "conf", "window", "0 0 29 2 *;1m")
	adopt(k, paused, closed)
	k.Update(paused, func() { paused.Spec.Paused = true })
	change(k, "conf", "a", "2")
	waitEvent(k, paused, "Paused")
	waitEvent(k, closed, "OutsideWindow")
	list := &eventsv1.EventList{}
	if err := k.Client.List(t.Context(), list, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == configrollout.Name && e.Type == corev1.EventTypeWarning {
			t.Errorf("warning %s: %s", e.Reason, e.Note)
		}
	}
}
