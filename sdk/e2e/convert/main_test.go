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

// env is the environment of one run of the operator.
type env struct {
	*testkit.K

	monitoring *testkit.K
	reconciles *atomic.Int64 // number of reconciles
}

func newEnv(t *testing.T, opts ...testkit.Option) env {
	t.Helper()
	return env{testkit.New(t, opts...), testkit.New(t), &atomic.Int64{}}
}

// A form is the operator after one of the steps.
type form struct {
	name  string
	setup func(e env, mgr manager.Manager) error
}

const fieldOwner = "webapp"

var forms = []form{
	{"before", func(e env, mgr manager.Manager) error {
		r := &before.Reconciler{Client: e.client(mgr), Scheme: mgr.GetScheme(), Monitoring: e.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step1", func(e env, mgr manager.Manager) error {
		owner := apply.NewFieldManager(fieldOwner)
		r := &step1.Reconciler{Client: e.client(mgr), Manager: owner, Monitoring: e.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step2", func(e env, mgr manager.Manager) error {
		owner := apply.NewFieldManager(fieldOwner)
		r := &step2.Reconciler{Client: e.client(mgr), Manager: owner, Monitoring: e.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"step3", func(e env, mgr manager.Manager) error {
		owner := apply.NewFieldManager(fieldOwner)
		r := &step3.Reconciler{Client: e.client(mgr), Manager: owner, Monitoring: e.monitoring.Namespace}
		return r.SetupWithManager(mgr)
	}},
	{"after", func(e env, mgr manager.Manager) error {
		op := after.New(e.monitoring.Namespace)
		reconcile := op.Reconcile
		op.Reconcile = func(ctx context.Context, p *sdk.Pass[*api.Webapp]) error {
			e.reconciles.Add(1)
			return reconcile(ctx, p)
		}
		return op.SetupWithManager(mgr, sdk.InNamespaces(e.Namespace, e.monitoring.Namespace))
	}},
}

// countingClient counts reconciles, each of which begins with a read of the Webapp.
type countingClient struct {
	client.Client

	reconciles *atomic.Int64
}

func (e env) client(mgr manager.Manager) client.Client {
	return countingClient{mgr.GetClient(), e.reconciles}
}

func (c countingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*api.Webapp); ok {
		c.reconciles.Add(1)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

// waitReconcile waits until the number of reconciles differs from since.
func (e env) waitReconcile(since int64) {
	e.Wait("the operator reconciles the Webapp", func(context.Context) error {
		if e.reconciles.Load() == since {
			return errors.New("it has not")
		}
		return nil
	})
}

// start runs the operator for the namespaces of this environment.
func (e env) start(f form, opts ...testkit.StartOption) *testkit.Instance {
	elsewhere := testkit.WithManagerOptions(func(o *manager.Options) {
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{e.monitoring.Namespace: {}}},
		}
	})
	return e.Start(func(mgr manager.Manager) error { return f.setup(e, mgr) }, append(opts, elsewhere)...)
}

// compare runs a test of each form and compares the results with the row of the table in the guide.
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
	requireInGuide(t, row(what, results...))
}

func newWebapp() *api.Webapp {
	return &api.Webapp{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       api.WebappSpec{Image: "shop:1", Replicas: 2, Port: 8080},
	}
}

func (e env) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "shop"}}
}

func (e env) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "shop"}}
}

func (e env) target() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.monitoring.Namespace, Name: e.Namespace + ".shop"}}
}

// createReady creates the Webapp and waits until it is ready.
func (e env) createReady() *api.Webapp {
	app := newWebapp()
	e.Apply(app)
	e.completeRollout(app)
	e.Eventually(app, testkit.Ready())
	return app
}

// completeRollout writes the status of the Deployment, as its controller would.
func (e env) completeRollout(app *api.Webapp) {
	d := e.deployment()
	e.Eventually(d, deploymentMatches(app))
	e.UpdateStatus(d, func() {
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

// quietPeriod is the time without requests after which an operator counts as idle.
const quietPeriod = 100 * time.Millisecond

// sent waits until the operator has sent nothing for the quiet period, or for the duration of twenty requests if that is
// longer. It returns the requests since the recorder was reset, without discovery and events.
func (e env) sent(op *testkit.Instance) []string {
	for waited, pause := time.Duration(0), quietPeriod; waited < pause; {
		if op.Recorder().WaitIdle(e.Context(), pause) != nil {
			break
		}
		waited = pause
		began := time.Now()
		if e.Client.List(e.Context(), &api.WebappList{}, client.InNamespace(e.Namespace), client.Limit(1)) != nil {
			break
		}
		pause = max(pause, min(20*time.Since(began), 5*time.Second))
	}
	var all []string
	for _, r := range op.Requests() {
		if r.Resource != "" && r.Resource != "events" {
			r.Namespace = ""
			r.Name = ""
			all = append(all, r.String())
		}
	}
	return all
}

// reconcileTimes triggers n reconciles of the Webapp and returns their requests.
func (e env) reconcileTimes(op *testkit.Instance, app *api.Webapp, n int) []string {
	e.sent(op)
	op.Recorder().Reset()
	var all []string
	for i := range n {
		since := e.reconciles.Load()
		e.Update(app, func() { metav1.SetMetaDataAnnotation(&app.ObjectMeta, "reconcile", strconv.Itoa(i)) })
		e.waitReconcile(since)
		all = e.sent(op)
	}
	return all
}

// patch changes an object as another actor would: with another field manager.
func (e env) patch(t *testing.T, o client.Object, kind types.PatchType, body string) {
	t.Helper()
	err := e.Client.Patch(e.Context(), o, client.RawPatch(kind, []byte(body)), client.FieldOwner("another-manager"))
	if err != nil {
		t.Fatal(err)
	}
}

func finalizers(want ...string) testkit.Check {
	return testkit.Match("finalizers "+strings.Join(want, " "), func(o client.Object) bool {
		return slices.Equal(slices.Sorted(slices.Values(o.GetFinalizers())), slices.Sorted(slices.Values(want)))
	})
}
