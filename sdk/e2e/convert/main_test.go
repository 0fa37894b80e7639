package convert

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/after"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/before"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/step1"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/step2"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/step3"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "crd.yaml", AddToScheme: api.AddToScheme})
}

// world is what one run of the operator acts on.
type world struct {
	*testkit.K

	monitoring *testkit.K
	looked     *atomic.Int64 // how often the operator has looked at a Webapp
}

func newWorld(t *testing.T, opts ...testkit.Option) world {
	t.Helper()
	return world{testkit.New(t, opts...), testkit.New(t), &atomic.Int64{}}
}

// A form is the operator as it is after one of the steps.
type form struct {
	name  string
	setup func(w world, mgr manager.Manager) error
}

const fieldOwner = "webapp"

var forms = []form{
	{"before", func(w world, mgr manager.Manager) error {
		r := &before.Reconciler{Client: w.client(mgr), Scheme: mgr.GetScheme(), Monitoring: w.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step1", func(w world, mgr manager.Manager) error {
		owner := apply.NewManager(fieldOwner)
		r := &step1.Reconciler{Client: w.client(mgr), Manager: owner, Monitoring: w.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step2", func(w world, mgr manager.Manager) error {
		owner := apply.NewManager(fieldOwner)
		r := &step2.Reconciler{Client: w.client(mgr), Manager: owner, Monitoring: w.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step3", func(w world, mgr manager.Manager) error {
		owner := apply.NewManager(fieldOwner)
		r := &step3.Reconciler{Client: w.client(mgr), Manager: owner, Monitoring: w.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"after", func(w world, mgr manager.Manager) error {
		op := after.New(w.monitoring.Namespace)
		reconcile := op.Reconcile
		op.Reconcile = func(ctx context.Context, p *sdk.Pass[*api.Webapp]) error {
			w.looked.Add(1)
			return reconcile(ctx, p)
		}
		return op.SetupWithManager(mgr, sdk.InNamespaces(w.Namespace, w.monitoring.Namespace))
	}},
}

// counting counts the passes of a reconciler, each of which begins by reading the Webapp.
type counting struct {
	client.Client

	looked *atomic.Int64
}

func (w world) client(mgr manager.Manager) client.Client { return counting{mgr.GetClient(), w.looked} }

func (c counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*api.Webapp); ok {
		c.looked.Add(1)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// looksAgain waits until the operator has begun a pass since it had begun so many.
func (w world) looksAgain(since int64) {
	w.Wait("the operator looks at the Webapp", func(context.Context) error {
		if w.looked.Load() == since {
			return errors.New("it has not")
		}
		return nil
	})
}

// start runs the operator for the namespaces of this world alone.
func (w world) start(f form, opts ...testkit.StartOption) *testkit.Instance {
	elsewhere := testkit.WithManagerOptions(func(o *manager.Options) {
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{w.monitoring.Namespace: {}}},
		}
	})
	return w.Start(func(mgr manager.Manager) error { return f.setup(w, mgr) }, append(opts, elsewhere)...)
}

// compare runs a test of each form, and holds the line that comes of it against the table in the guide.
func compare(t *testing.T, what string, test func(t *testing.T, f form) any) {
	t.Helper()
	results := make([]any, len(forms))
	t.Run("forms", func(t *testing.T) {
		for i, f := range forms {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				results[i] = test(t, f)
			})
		}
	})
	if t.Failed() {
		return
	}
	documented(t, row(what, results...))
}

func newWebapp() *api.Webapp {
	return &api.Webapp{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       api.WebappSpec{Image: "shop:1", Replicas: 2, Port: 8080},
	}
}

func (w world) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shop"}}
}

func (w world) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shop"}}
}

func (w world) target() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.monitoring.Namespace, Name: w.Namespace + ".shop"}}
}

// ready makes the Webapp and waits for it.
func (w world) ready() *api.Webapp {
	app := newWebapp()
	w.Apply(app)
	w.work(app)
	w.Eventually(app, testkit.Ready())
	return app
}

// work plays Kubernetes' own controller of Deployments.
func (w world) work(app *api.Webapp) {
	d := w.deployment()
	w.Eventually(d, runs(app))
	w.UpdateStatus(d, func() {
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
	})
}

// still is how long nothing may be sent until an operator counts as being at rest.
const still = 100 * time.Millisecond

// sent waits until the operator has sent nothing for a while, or for as long as twenty requests take if that is more, and
// returns what it has sent since the recorder was reset, without discovery and events.
func (w world) sent(op *testkit.Instance) []string {
	for waited, pause := time.Duration(0), still; waited < pause; {
		if op.Recorder().WaitIdle(w.Context(), pause) != nil {
			break
		}
		waited = pause
		began := time.Now()
		if w.Client.List(w.Context(), &api.WebappList{}, client.InNamespace(w.Namespace), client.Limit(1)) != nil {
			break
		}
		pause = max(pause, min(20*time.Since(began), 5*time.Second))
	}
	var all []string
	for _, r := range op.Requests() {
		if r.Resource != "" && r.Resource != "events" {
			r.Namespace, r.Name = "", ""
			all = append(all, r.String())
		}
	}
	return all
}

// passes makes the operator look at the Webapp so many times, and returns what it sent.
func (w world) passes(op *testkit.Instance, app *api.Webapp, n int) []string {
	w.sent(op)
	op.Recorder().Reset()
	var all []string
	for i := range n {
		since := w.looked.Load()
		w.Update(app, func() { metav1.SetMetaDataAnnotation(&app.ObjectMeta, "look", strconv.Itoa(i)) })
		w.looksAgain(since)
		all = w.sent(op)
	}
	return all
}

// patch changes an object as somebody else would.
func (w world) patch(t *testing.T, o client.Object, kind types.PatchType, body string) {
	t.Helper()
	err := w.Client.Patch(w.Context(), o, client.RawPatch(kind, []byte(body)), client.FieldOwner("somebody"))
	if err != nil {
		t.Fatal(err)
	}
}

func finalizers(want ...string) testkit.Check {
	return testkit.Match("finalizers "+strings.Join(want, " "), func(o client.Object) bool {
		return slices.Equal(slices.Sorted(slices.Values(o.GetFinalizers())), slices.Sorted(slices.Values(want)))
	})
}
