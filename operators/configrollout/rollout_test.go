package configrollout_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A change during a downtime of the operator is found after its restart, and unchanged workloads are left alone.
func TestChangedWhileTheOperatorIsDown(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	k.Apply(configMap("other", "a", "1"))
	a, b := deployment("a", "conf"), deployment("b", "other")
	adopt(k, a, b)
	op.Kill()
	change(k, "conf", "a", "2")
	op = start(t, k)
	k.Eventually(a, rolledFrom(""), result("Completed"))
	waitIdle(k, op)
	k.Eventually(b, adopted())
	op.Stop()
	op = start(t, k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
}

func TestMetadataRollsNothing(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	waitIdle(k, op)
	op.Recorder().Reset()
	cm := configMap("conf")
	k.Update(cm, func() {
		cm.Labels = map[string]string{"l": "1"}
		cm.Annotations = map[string]string{"example.com/a": "1"}
	})
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("labels and annotations lead to %v", w)
	}
}

// Only the keys that pods use are relevant.
func TestUnusedKeysRollNothing(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "used", "1", "unused", "1"))
	byEnv, byItem, byPath := deployment("env", "conf"), deployment("item", "conf"), deployment("path", "conf")
	byEnv.Spec.Template.Spec.Volumes = nil
	byEnv.Spec.Template.Spec.Containers[0].VolumeMounts = nil
	byEnv.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "conf"},
			Key:                  "used",
		},
	}}}
	byItem.Spec.Template.Spec.Volumes[0].ConfigMap.Items = []corev1.KeyToPath{{Key: "used", Path: "file"}}
	byPath.Spec.Template.Spec.Containers[0].VolumeMounts[0].SubPath = "used"
	all := []client.Object{byEnv, byItem, byPath}
	adopt(k, all...)
	waitIdle(k, op)
	op.Recorder().Reset()
	change(k, "conf", "unused", "2", "new", "1")
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("keys that no workload uses lead to %v", w)
	}
	change(k, "conf", "used", "2")
	for _, o := range all {
		k.Eventually(o, rolledFrom(""))
	}
}

// The creation and the deletion of an optional object are changes.
func TestOptionalReferences(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	d := deployment("a", "conf")
	d.Spec.Template.Spec.Volumes[0].ConfigMap.Optional = new(true)
	adopt(k, d)
	cm := configMap("conf", "a", "1")
	k.Apply(cm)
	k.Eventually(d, rolledFrom(""), result("Completed"))
	there := digestOf(d)
	k.Delete(cm)
	k.Eventually(d, rolledFrom(there), result("Completed"))
}

// An immutable object changes by being recreated.
func TestImmutable(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	cm := configMap("conf", "a", "1")
	cm.Immutable = new(true)
	k.Apply(cm)
	d := deployment("a", "conf")
	adopt(k, d)
	k.Delete(cm)
	again := configMap("conf", "a", "2")
	again.Immutable = new(true)
	k.Apply(again)
	k.Eventually(d, rolledFrom(""))
}

func TestRecreatedWithSameContent(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	cm := configMap("conf", "a", "1")
	k.Apply(cm)
	d := deployment("a", "conf")
	adopt(k, d)
	k.Delete(cm)
	k.Eventually(d, state("ConfigMissing"))
	waitEvent(k, d, "ConfigMissing")
	k.Apply(configMap("conf", "a", "1"))
	k.Eventually(d, state(""))
	waitIdle(k, op)
	k.Eventually(d, adopted())
	if n := replicaSets(t, k, "a"); n != 1 {
		t.Errorf("it has %d ReplicaSets", n)
	}
}

// An upgrade of a chart changes the ConfigMap and the Deployment, and causes one rollout.
func TestChangedTogether(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf", "quiet-period", "3s")
	adopt(k, d)
	before := observedDigest(d)
	upgrade := func(value string) {
		change(k, "conf", "a", value)
		k.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:" + value })
	}
	upgrade("2")
	k.Eventually(d, testkit.Ready(), testkit.Match("brought to the new content", func(d *appsv1.Deployment) bool {
		return observedDigest(d) != before && !pending(d)
	}))
	waitIdle(k, op)
	k.Eventually(d, adopted())
	if n := replicaSets(t, k, "a"); n != 2 {
		t.Errorf("it has %d ReplicaSets, want that of the new image and the one before", n)
	}
	change(k, "conf", "a", "3")
	k.Eventually(d, rolledFrom(""), result("Completed"), testkit.Ready())
	rolled := digestOf(d)
	upgrade("4")
	waitIdle(k, op)
	k.Eventually(d, testkit.Ready())
	if digestOf(d) != rolled || observedDigest(d) == rolled {
		t.Errorf("the template has %s, %s before; brought to %s", digestOf(d), rolled, observedDigest(d))
	}
	op.Stop()
	op = start(t, k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("after a restart it writes %v", w)
	}
}

// A change of the Deployment before that of the ConfigMap does not cover it.
func TestChangedAfterwards(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	k.Update(d, func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:2" })
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""), testkit.Ready())
}

// A template with a reference to another ConfigMap creates new pods itself.
func TestOtherReferences(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	k.Apply(configMap("other", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	waitIdle(k, op)
	before := observedDigest(d)
	k.Update(d, func() { d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "other" })
	k.Eventually(d, adopted(), testkit.Match("updated", func(d *appsv1.Deployment) bool { return observedDigest(d) != before }))
	waitIdle(k, op)
	k.Eventually(d, adopted(), testkit.Ready())
	change(k, "other", "a", "2")
	k.Eventually(d, rolledFrom(""))
}

func TestPausedByTheUser(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	k.Update(d, func() { d.Spec.Paused = true })
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending(), state("Paused"))
	waitEvent(k, d, "Paused")
	waitIdle(k, op)
	if k.Get(d); digestOf(d) != "" || !d.Spec.Paused {
		t.Errorf("paused: %v, digest %q", d.Spec.Paused, digestOf(d))
	}
	k.Update(d, func() { d.Spec.Paused = false })
	k.Eventually(d, rolledFrom(""), result("Completed"), state(""))
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	set, daemon := statefulSet("set", "conf"), daemonSet("daemon", "conf")
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	daemon.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	adopt(k, set, daemon)
	before := podNames(t, k, "daemon")
	change(k, "conf", "a", "2")
	for _, o := range []client.Object{set, daemon} {
		k.Eventually(o, rolledFrom(""), result("Completed"))
		if note := waitEvent(k, o, "RestartNeeded"); !strings.Contains(note, "OnDelete") {
			t.Errorf("it is told as %q", note)
		}
	}
	if after := podNames(t, k, "daemon"); !slices.Equal(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
}

// Only the digest in the specification is written: the update strategy is not touched.
func TestOnlyDigestIsWritten(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	d.Spec.Template.Annotations = map[string]string{"example.com/theirs": "1"}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
		MaxUnavailable: new(intstr.FromInt32(0)),
		MaxSurge:       new(intstr.FromInt32(1)),
	}
	adopt(k, d)
	before := d.DeepCopy()
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""))
	after := d.DeepCopy()
	delete(after.Spec.Template.Annotations, prefix+"config-digest")
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	for _, entry := range d.ManagedFields {
		if fields := entry.FieldsV1.GetRawString(); entry.Manager == configrollout.Name && strings.Contains(fields, "f:replicas") {
			t.Errorf("it owns %s", fields)
		}
	}
}

// Failed writes are retried without a limit.
func TestFailingWritesAreRepeated(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var failing, failed atomic.Int32
	k.Run(newOperator(t), testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && failing.Add(-1) >= 0 {
				failed.Add(1)
				return nil, errors.New("the network is down")
			}
			return next.RoundTrip(r)
		})
	}))
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	failing.Store(9)
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""))
	if failed.Load() != 9 {
		t.Errorf("%d writes failed", failed.Load())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kubectl rollout undo restores the old digest and, for a Deployment, the old annotations. The content is still the
// present one: the workload is rolled once more, and only once.
func TestUndo(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d, set := deployment("a", "conf"), statefulSet("b", "conf")
	adopt(k, d, set)
	change(k, "conf", "a", "2")
	for _, o := range []client.Object{d, set} {
		k.Eventually(o, rolledFrom(""), result("Completed"), testkit.Ready())
	}
	waitIdle(k, op)
	present := digestOf(d)
	for _, o := range []client.Object{d, set} {
		kind := map[bool]string{true: "deployment/", false: "statefulset/"}[o == client.Object(d)]
		before, last := templates(t, o), lastRollout(t, o).Time
		testkit.Kubectl(t, k.Config)("rollout", "undo", kind+o.GetName(), "--namespace", k.Namespace)
		k.Eventually(o, rolledFrom(""), result("Completed"), testkit.Ready(), rolledAfter(last))
		waitIdle(k, op)
		k.Get(o)
		if n := templates(t, o) - before; n > 2 || digestOf(o) != present {
			t.Errorf("%s had %d templates after that and has digest %s, want %s", o.GetName(), n, digestOf(o), present)
		}
	}
}

// templates returns the number of template changes. A change of a Deployment's annotations increments its generation too, so
// that its revision is used. It lacks the templates that the deployment controller was too slow to see.
func templates(t *testing.T, o client.Object) int64 {
	t.Helper()
	if _, ok := o.(*appsv1.Deployment); !ok {
		return o.GetGeneration()
	}
	n, err := strconv.ParseInt(o.GetAnnotations()["deployment.kubernetes.io/revision"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A digest that another manager keeps removing is restored with a growing backoff, and reported.
func TestRepeatedRevert(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""), result("Completed"))
	revert := func() { k.Update(d, func() { delete(d.Spec.Template.Annotations, prefix+"config-digest") }) }
	revert()
	k.Eventually(d, rolledFrom(""), result("Completed"))
	waitEvent(k, d, "RolloutReverted")
	if last := lastRollout(t, d); last.Reverts != 1 {
		t.Errorf("%d reverts are counted", last.Reverts)
	}
	revert()
	k.Eventually(d, state("BackOff"))
	waitEvent(k, d, "BackOff")
	waitIdle(k, op)
	if k.Get(d); digestOf(d) != "" {
		t.Error("it was put back at once again")
	}
	change(k, "conf", "a", "3") // new content has no backoff
	k.Eventually(d, rolledFrom(""), result("Completed"), state(""))
}
