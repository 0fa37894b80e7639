package e2e

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// owned returns the fields of an object that the operator owns according to managedFields.
func owned(k *testkit.K, o client.Object) string {
	k.Get(o)
	return apply.OwnedFields(o, operatorName).String()
}

// converged waits until the site is Ready and the operator is idle.
func converged(k *testkit.K, op *testkit.Instance, s *site.Site) {
	k.Eventually(s, testkit.Ready())
	waitIdle(k, op, quietPeriod)
}

func TestZeroValuesAreNotIntent(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}},
			},
		})
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	svc := named(&corev1.Service{}, s.Name)
	converged(k, running, s)
	for _, field := range []string{"targetPort", "nodePort", "protocol", "type", "status", "creationTimestamp"} {
		if fields := owned(k, svc); strings.Contains(fields, "f:"+field+`"`) {
			t.Errorf("the operator owns %s, which it never set: %s", field, fields)
		}
	}
	running.Recorder().Reset()
	k.Update(svc, func() {
		svc.Spec.Ports[0].TargetPort = intstr.FromInt32(8080)
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	})
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests after another manager set fields that the operator left at zero: %v", got)
	}
}

func TestZeroEnforcesTheZeroValue(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, deployment(p.Object), sdk.Zero("spec.paused"), sdk.Zero("spec.replicas"),
			sdk.ReadyWhen(func(*appsv1.Deployment) (bool, string) { return true, "" }))
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	d := named(&appsv1.Deployment{}, s.Name)
	converged(k, running, s)
	for field, change := range map[string]string{"paused": "true", "replicas": "3"} {
		running.Recorder().Reset()
		mustPatch(t, k, d, types.MergePatchType, `{"spec":{"`+field+`":`+change+`}}`)
		k.Eventually(d, testkit.Match("zero again", func(d *appsv1.Deployment) bool {
			return !d.Spec.Paused && *d.Spec.Replicas == 0
		}))
		if diff := cmp.Diff([]string{"apply deployments.apps a -> 200"}, sent(k, running)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", field, diff)
		}
	}
}

// scaled returns a reconcile function that applies a Deployment of two replicas with these options.
func scaled(opts ...sdk.ApplyOption) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		d := deployment(p.Object)
		d.Spec.Replicas = new(int32(2))
		d.Spec.Template.Spec.Containers[0].Image = p.Object.Spec.Text
		opts := append(slices.Clone(opts),
			sdk.ReadyWhen(func(*appsv1.Deployment) (bool, string) { return true, "" }))
		sdk.Apply(p, d, opts...)
		return nil
	}
}

func replicasAndImage(replicas int32, image string) testkit.Check {
	return testkit.Match("replicas and image", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == replicas && d.Spec.Template.Spec.Containers[0].Image == image
	})
}

func TestUnmanagedFieldIsNotWritten(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(scaled(sdk.Unmanaged("spec.replicas"))))
	s := newSite("a")
	k.Apply(s)
	d := named(&appsv1.Deployment{}, s.Name)
	k.Eventually(d, replicasAndImage(2, "hello"))

	k.Update(s, func() { s.Spec.Text = "before-handover" })
	k.Eventually(d, replicasAndImage(2, "before-handover")) // dropping the field would reset it to 1

	converged(k, running, s)
	running.Recorder().Reset()
	if err := scale(5)(k, d); err != nil {
		t.Fatal(err)
	}
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests after the unmanaged field changed: %v", got)
	}
	k.Update(s, func() { s.Spec.Text = "after-handover" })
	k.Eventually(d, replicasAndImage(5, "after-handover"))
	if fields := owned(k, d); strings.Contains(fields, "f:replicas") {
		t.Errorf("the operator still owns the unmanaged field: %s", fields)
	}
}

// A field that becomes unmanaged in a new version of an operator keeps its value until another manager changes it.
func TestNewlyUnmanagedFieldKeepsItsValue(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(scaled()))
	s := newSite("a")
	k.Apply(s)
	d := named(&appsv1.Deployment{}, s.Name)
	converged(k, running, s)
	running.Stop()
	running = start(k, operator(scaled(sdk.Unmanaged("spec.replicas"))))
	waitIdle(k, running, quietPeriod)
	k.Eventually(d, replicasAndImage(2, "hello"))
	if err := scale(7)(k, d); err != nil {
		t.Fatal(err)
	}
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(d, replicasAndImage(7, "new"))
}

// Another manager changes an unmanaged field during a reconcile, while the operator still owns the field. The value that the
// operator has read must not be written back.
func TestUnmanagedFieldChangedDuringReconcile(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var hold atomic.Pointer[barrier]
	reconcile := scaled(sdk.Unmanaged("spec.replicas"))
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		if g := hold.Load(); g != nil {
			g.arrive()
		}
		return reconcile(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	g := newBarrier()
	hold.Store(g)
	k.Update(s, func() { s.Spec.Text = "new" })
	g.waitReached(k)
	d := named(&appsv1.Deployment{}, s.Name)
	if err := scale(5)(k, d); err != nil {
		t.Fatal(err)
	}
	hold.Store(nil)
	g.open()
	k.Eventually(d, replicasAndImage(5, "new"))
}

func TestFieldOfPreviousVersionIsRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	version := func(keys ...string) *sdk.Operator[*site.Site] {
		return operator(func(_ context.Context, p *pass) error {
			c := configMap(p.Object, p.Object.Name)
			for _, key := range keys {
				c.Data[key] = "x"
				c.Labels[key] = "x"
			}
			sdk.Apply(p, c)
			return nil
		})
	}
	running := start(k, version("old", "kept"))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	c := named(&corev1.ConfigMap{}, s.Name)
	mustPatch(t, k, c, types.MergePatchType, `{"data":{"foreign":"x"}}`)
	running.Stop()
	running = start(k, version("kept"))
	k.Eventually(c, testkit.Match("without the old field", func(c *corev1.ConfigMap) bool {
		_, data := c.Data["old"]
		_, label := c.Labels["old"]
		return !data && !label && c.Data["kept"] == "x" && c.Data["foreign"] == "x"
	}))
	if diff := cmp.Diff([]string{"apply configmaps a -> 200"}, sent(k, running)); diff != "" {
		t.Errorf("requests of the new version (-want +got):\n%s", diff)
	}
}

func TestOneFieldManager(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(applyAllKinds))
	k.Apply(named(&corev1.Secret{}, "referred"))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(named(&corev1.Pod{}, s.Name), testkit.Exists())
	for text := range strings.SplitSeq("one two three", " ") {
		k.Update(s, func() { s.Spec.Text = text })
		waitIdle(k, running, quietPeriod)
	}
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.Secret{}} {
		o.SetName(s.Name)
		k.Get(o)
		entries := o.GetManagedFields()
		if len(entries) != 1 || entries[0].Manager != operatorName || entries[0].Operation != "Apply" {
			t.Errorf("managers of %T: %+v; want %s alone, by Apply", o, entries, operatorName)
		}
	}
}
