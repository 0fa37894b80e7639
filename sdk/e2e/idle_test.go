package e2e

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// applyAllKinds applies one child of each kind with a stored form that differs from the sent form: defaults, quantities in
// another unit, Secrets with stringData, lists with defaulted keys. It also reads a reference and recomputes its status from
// scratch, as a reconcile function should.
func applyAllKinds(_ context.Context, p *pass) error {
	s := p.Object
	s.Status.UID = ""
	secret, err := sdk.Ref(p, named(&corev1.Secret{}, "referred"))
	if err != nil {
		return err
	}
	s.Status.UID = string(secret.UID)
	d := deployment(s)
	c := &d.Spec.Template.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{ContainerPort: 53}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
	c.Env = []corev1.EnvVar{{Name: "EMPTY"}, {Name: "FULL", Value: "x"}}
	c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("0.5"), "memory": resource.MustParse("1024Mi")}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	sdk.Apply(p, d)
	sdk.Apply(p, configMap(s, s.Name))
	sdk.Apply(p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, StringData: map[string]string{"a": "b"}})
	sdk.Apply(p, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"site": s.Name},
			Ports: []corev1.ServicePort{
				{Name: "dns", Port: 53}, {Name: "dns-udp", Port: 53, Protocol: corev1.ProtocolUDP},
			},
		},
	})
	sdk.Apply(p, pod(s, s.Name), sdk.HoldUntil(true))
	return nil
}

// makeReady makes the children of applyAllKinds ready, as their controllers would.
func makeReady(k *testkit.K, name string) {
	d := named(&appsv1.Deployment{}, name)
	k.Eventually(d, testkit.Exists())
	k.UpdateStatus(d, func() {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
	})
	o := named(&corev1.Pod{}, name)
	k.Eventually(o, testkit.Exists())
	k.UpdateStatus(o, func() {
		o.Status.Phase = corev1.PodRunning
		o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

func TestIdleOperatorSendsNoRequests(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes atomic.Int64
	op := operator(func(ctx context.Context, p *pass) error {
		passes.Add(1)
		return applyAllKinds(ctx, p)
	})
	op.Resync = 20 * time.Millisecond
	running := start(k, op)
	k.Apply(named(&corev1.Secret{}, "referred"))
	s := newSite("a")
	k.Apply(s)
	makeReady(k, s.Name)
	k.Eventually(s, testkit.Ready())

	t.Run("resync", func(t *testing.T) {
		requireIdle(t, k, running, &passes, 20)
	})
	t.Run("status of children", func(t *testing.T) {
		p := named(&corev1.Pod{}, s.Name)
		for _, message := range []string{"one", "two", "three"} {
			k.UpdateStatus(p, func() { p.Status.Message = message })
		}
		requireIdle(t, k, running, &passes, 20)
	})
	for name, end := range map[string]func(*testkit.Instance){
		"restart in order":     (*testkit.Instance).Stop,
		"restart after a kill": (*testkit.Instance).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			end(running)
			passes.Store(0)
			running = start(k, op)
			k.Wait("passes were made", func(context.Context) error { return atLeast(&passes, 20) })
			if diff := cmp.Diff([]string(nil), sent(k, running)); diff != "" {
				t.Errorf("requests after the restart (-want +got):\n%s", diff)
			}
		})
	}
}

// requireIdle checks that the operator sends no request in this many reconciles.
func requireIdle(t *testing.T, k *testkit.K, op *testkit.Instance, passes *atomic.Int64, more int64) {
	t.Helper()
	waitIdle(k, op, quietPeriod)
	op.Recorder().Reset()
	passes.Store(0)
	k.Wait("more passes were made", func(context.Context) error { return atLeast(passes, more) })
	if diff := cmp.Diff([]string(nil), sent(k, op)); diff != "" {
		t.Errorf("requests in %d passes (-want +got):\n%s", more, diff)
	}
}

func TestChildStatusCausesOneStatusPatch(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		d := sdk.Apply(p, deployment(p.Object))
		p.Object.Status.Seen = int64(d.Live().Status.ReadyReplicas)
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	d := named(&appsv1.Deployment{}, s.Name)
	k.Eventually(d, testkit.Exists())
	for ready := range int32(3) {
		waitIdle(k, running, quietPeriod)
		running.Recorder().Reset()
		k.UpdateStatus(d, func() {
			d.Status.Replicas = 5
			d.Status.ReadyReplicas = ready + 1
		})
		k.Eventually(s, testkit.Match("seen", func(s *site.Site) bool { return s.Status.Seen == int64(ready+1) }))
		want := []string{"patch sites.e2e.homeostat.dev/status a -> 200"}
		if diff := cmp.Diff(want, sent(k, running)); diff != "" {
			t.Errorf("requests for one change of a child's status (-want +got):\n%s", diff)
		}
	}
}

// A custom resource is sent as unstructured data here, and its quantity is stored as written. Only a change of the field
// manager distinguishes drift from another notation of the same quantity.
func TestQuantityOfUnstructuredChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, gadget(p.Object.Name, map[string]any{"size": "1024Mi"}))
		return nil
	})
	op.Owns = []client.Object{gadget("", nil)}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	waitIdle(k, running, quietPeriod)
	running.Stop()
	running = start(k, op)
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests after a restart: %v", got)
	}
	g := gadget(s.Name, nil)
	mustPatch(t, k, g, types.MergePatchType, `{"spec":{"size":"1Gi"}}`)
	k.Eventually(g, testkit.Match("the value as applied", func(g *unstructured.Unstructured) bool {
		size, _, _ := unstructured.NestedString(g.Object, "spec", "size")
		return size == "1024Mi"
	}))
	if diff := cmp.Diff([]string{"apply gadgets.e2e.homeostat.dev a -> 200"}, sent(k, running)); diff != "" {
		t.Errorf("requests for one repair (-want +got):\n%s", diff)
	}
}
