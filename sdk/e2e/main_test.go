package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	runOperatorIfAsked()
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", AddToScheme: site.AddToScheme})
}

type (
	pass         = sdk.Pass[*site.Site]
	siteOperator = sdk.Operator[*site.Site]
)

// operatorName is also the field manager of all applied objects.
const operatorName = "sdk-e2e"

// quietPeriod is the time without requests after which an operator counts as idle.
const quietPeriod = 150 * time.Millisecond

// observationPeriod is the time for which a test checks that an event does not occur.
const observationPeriod = 300 * time.Millisecond

// operator returns a small operator with the reconcile function of a test.
func operator(reconcile func(context.Context, *pass) error) *sdk.Operator[*site.Site] {
	return &sdk.Operator[*site.Site]{
		Name:        operatorName,
		AddToScheme: site.AddToScheme,
		Owns: []client.Object{
			&corev1.ConfigMap{}, &corev1.Secret{}, &appsv1.Deployment{}, &corev1.Service{}, &corev1.Pod{},
			&appsv1.StatefulSet{},
		},
		Reconcile: reconcile,
		Resync:    -1,
	}
}

// oneChild is a reconcile function that applies one ConfigMap.
func oneChild(_ context.Context, p *pass) error {
	sdk.Apply(p, configMap(p.Object, p.Object.Name))
	return nil
}

// start runs the operator for the test's namespace only.
func start(k *testkit.K, op *sdk.Operator[*site.Site], opts ...testkit.StartOption) *testkit.Instance {
	return k.Run(op, opts...)
}

func newSite(name string) *site.Site {
	return &site.Site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: site.Spec{Text: "hello"}}
}

func configMap(s *site.Site, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"color": "blue"}},
		Data:       map[string]string{"text": s.Spec.Text},
	}
}

func deployment(s *site.Site) *appsv1.Deployment {
	labels := map[string]string{"site": s.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

func pod(s *site.Site, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: s.Spec.Text}}},
	}
}

// named sets the name of an object to wait for and returns the object.
func named[T client.Object](like T, name string) T {
	like.SetName(name)
	return like
}

// sent waits until the operator is idle and returns its requests since the recorder was reset. Discovery, which every client
// does once, and events, which are sent asynchronously, are left out.
func sent(k *testkit.K, op *testkit.Instance) []string {
	var all []string
	for _, r := range waitIdle(k, op, quietPeriod) {
		if r.Resource != "" && r.Resource != "events" {
			all = append(all, strings.Replace(r.String(), r.Namespace+"/", "", 1))
		}
	}
	return all
}

// requireUnchanged checks that an object is not written during the observation period.
func requireUnchanged(t *testing.T, k *testkit.K, op *testkit.Instance, o client.Object) {
	t.Helper()
	version := o.GetResourceVersion()
	waitIdle(k, op, observationPeriod)
	if k.Get(o); o.GetResourceVersion() != version {
		t.Errorf("%T %s was written", o, o.GetName())
	}
}

// waitIdle waits until the operator has sent nothing for the given time, or for the duration of fifty requests if that is
// longer, as on a busy machine. It returns all requests until then.
func waitIdle(k *testkit.K, op *testkit.Instance, still time.Duration) []recorder.Request {
	for waited := time.Duration(0); waited < still; {
		if err := op.Recorder().WaitIdle(k.Context(), still); err != nil {
			return nil
		}
		waited = still
		began := time.Now()
		if err := k.Client.List(k.Context(), &site.List{}, client.InNamespace(k.Namespace), client.Limit(1)); err != nil {
			return nil
		}
		still = max(still, min(50*time.Since(began), 10*time.Second))
	}
	return op.Requests()
}

// patch changes an object as another actor would: with another field manager.
func patch(k *testkit.K, o client.Object, kind types.PatchType, body string, opts ...client.PatchOption) error {
	opts = append([]client.PatchOption{client.FieldOwner("another-manager")}, opts...)
	if o.GetNamespace() == "" {
		o.SetNamespace(k.Namespace)
	}
	return k.Client.Patch(k.Context(), o, client.RawPatch(kind, []byte(body)), opts...)
}

// mustPatch calls patch and fails the test on an error.
func mustPatch(t *testing.T, k *testkit.K, o client.Object, kind types.PatchType, body string) {
	t.Helper()
	if err := patch(k, o, kind, body); err != nil {
		t.Fatal(err)
	}
}

// annotate sets an annotation of the site.
func annotate(k *testkit.K, s *site.Site, key, value string) {
	k.Update(s, func() {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[key] = value
	})
}

// condition returns the status, reason and message of a condition; they are empty if it is missing.
func condition(s *site.Site, conditionType string) (status metav1.ConditionStatus, reason, message string) {
	c := conditions.Get(s, conditionType)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// gadget returns a custom resource without a Go type.
func gadget(name string, spec map[string]any) *unstructured.Unstructured {
	return ofKind(site.GroupVersion.WithKind("Gadget"), name, spec)
}

// atLeast returns an error until a count is reached.
func atLeast(count *atomic.Int64, want int64) error {
	if got := count.Load(); got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

// A barrier blocks a reconcile of the operator until the test opens it.
type barrier struct {
	arrived, opened chan struct{}
	once            sync.Once
}

func newBarrier() *barrier {
	return &barrier{arrived: make(chan struct{}), opened: make(chan struct{})}
}

// arrive is called by the operator and returns when the barrier is open.
func (g *barrier) arrive() {
	g.once.Do(func() { close(g.arrived) })
	<-g.opened
}

// waitReached waits until a reconcile is at the barrier.
func (g *barrier) waitReached(k *testkit.K) {
	select {
	case <-g.arrived:
	case <-k.Context().Done():
	}
}

func (g *barrier) open() { close(g.opened) }
