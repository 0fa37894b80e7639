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

// operatorName is also the field owner of everything that the tests' operators apply.
const operatorName = "sdk-e2e"

// still is how long nothing may be sent until an operator counts as being at rest.
const still = 150 * time.Millisecond

// window is how long nothing may happen to show that nothing does.
const window = 300 * time.Millisecond

// operator is a small operator whose reconcile function is the test's own.
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

// oneChild is the reconcile function of the operators that only need to have a child.
func oneChild(_ context.Context, p *pass) error {
	sdk.Apply(p, configMap(p.Object, p.Object.Name))
	return nil
}

// start runs the operator for the test's namespace alone.
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

// named is an object to wait for, of the kind of like.
func named[T client.Object](like T, name string) T {
	like.SetName(name)
	return like
}

// sent waits until the operator is at rest and returns what it has sent since the recorder was reset, without the
// discovery of kinds that every client does once, and without events, which are sent when the recorder of events likes.
func sent(k *testkit.K, op *testkit.Instance) []string {
	var all []string
	for _, r := range quiet(k, op, still) {
		if r.Resource != "" && r.Resource != "events" {
			all = append(all, strings.Replace(r.String(), r.Namespace+"/", "", 1))
		}
	}
	return all
}

// untouched checks that nobody writes an object.
func untouched(t *testing.T, k *testkit.K, op *testkit.Instance, o client.Object) {
	t.Helper()
	version := o.GetResourceVersion()
	quiet(k, op, window)
	if k.Get(o); o.GetResourceVersion() != version {
		t.Errorf("%T %s was written", o, o.GetName())
	}
}

// quiet waits until the operator sent nothing for a while, and for as long as fifty requests take if that is more, as it is
// on a busy machine. It returns what had been sent by then.
func quiet(k *testkit.K, op *testkit.Instance, still time.Duration) []recorder.Request {
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

// patch changes an object as somebody else would: under another field owner.
func patch(k *testkit.K, o client.Object, kind types.PatchType, body string, opts ...client.PatchOption) error {
	opts = append([]client.PatchOption{client.FieldOwner("somebody")}, opts...)
	if o.GetNamespace() == "" {
		o.SetNamespace(k.Namespace)
	}
	return k.Client.Patch(k.Context(), o, client.RawPatch(kind, []byte(body)), opts...)
}

// mustPatch is patch for a change that cannot fail.
func mustPatch(t *testing.T, k *testkit.K, o client.Object, kind types.PatchType, body string) {
	t.Helper()
	if err := patch(k, o, kind, body); err != nil {
		t.Fatal(err)
	}
}

// annotate sets an annotation of the site as a user would.
func annotate(k *testkit.K, s *site.Site, key, value string) {
	k.Update(s, func() {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[key] = value
	})
}

// condition returns the reason and message of a condition, for comparison.
func condition(s *site.Site, conditionType string) (status metav1.ConditionStatus, reason, message string) {
	c := conditions.Get(s, conditionType)
	if c == nil {
		return "", "", ""
	}
	return c.Status, c.Reason, c.Message
}

// gadget is a custom resource without a Go type.
func gadget(name string, spec map[string]any) *unstructured.Unstructured {
	return ofKind(site.GroupVersion.WithKind("Gadget"), name, spec)
}

// atLeast returns an error that says what is missing until a count is reached.
func atLeast(count *atomic.Int64, want int64) error {
	if got := count.Load(); got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

// A gate holds a pass of the operator until the test opens it.
type gate struct {
	arrived, opened chan struct{}
	once            sync.Once
}

func newGate() *gate { return &gate{arrived: make(chan struct{}), opened: make(chan struct{})} }

// pass is called by the operator.
func (g *gate) pass() {
	g.once.Do(func() { close(g.arrived) })
	<-g.opened
}

// reached waits until a pass is at the gate.
func (g *gate) reached(k *testkit.K) {
	select {
	case <-g.arrived:
	case <-k.Context().Done():
	}
}

func (g *gate) open() { close(g.opened) }
