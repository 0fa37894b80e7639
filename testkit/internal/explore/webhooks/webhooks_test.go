package webhooks_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

const (
	hookPath      = "/validate"
	configuration = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: tenant-webhook}
webhooks:
- name: validate.tenants.example.com
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: tenants, namespace: tenants, path: ` + hookPath + `}}
  rules:
  - {apiGroups: [scheduling.k8s.io], apiVersions: [v1], resources: [priorityclasses], operations: [UPDATE, DELETE]}
  failurePolicy: Fail
  sideEffects: None
`
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: fstest.MapFS{"webhooks.yaml": {Data: []byte(configuration)}}, Webhooks: "webhooks.yaml",
	})
}

// tenants creates a Namespace for each PriorityClass of a test, and has a webhook that allows every change of the class.
func tenants(of string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		allow := func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }
		mgr.GetWebhookServer().Register(hookPath, &admission.Webhook{Handler: admission.HandlerFunc(allow)})
		c := mgr.GetClient()
		reconciler := func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var class schedulingv1.PriorityClass
			if err := c.Get(ctx, req.NamespacedName, &class); err != nil || !strings.HasPrefix(req.Name, of) ||
				!class.DeletionTimestamp.IsZero() {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, ns, func() error {
				return controllerutil.SetControllerReference(&class, ns, mgr.GetScheme())
			})
			return reconcile.Result{}, err
		}
		return ctrl.NewControllerManagedBy(mgr).For(&schedulingv1.PriorityClass{}).Owns(&corev1.Namespace{}).
			Complete(reconcile.Func(reconciler))
	}
}

func tenantOf(namespace string) string { return namespace + "-tenant" }

// A deletion that the webhook of a stopped operator would have to admit proves nothing. Its run ends at once, and leaves
// nothing behind.
func TestDeletionWithoutOperator(t *testing.T) {
	t.Parallel()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	created := make(chan string, 100)
	x, err := explore.New(t.Context(), cfg, explore.Options{
		Opener: kitadapter.Open, Faults: []string{"down"}, Timeout: testkit.DefaultTimeout, Seed: 1,
		Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
			k.Apply(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: tenantOf(k.Namespace)}, Value: 1})
			created <- tenantOf(k.Namespace)
		})},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(tenants(k.Namespace), append(opts, testkit.ClusterWide())...)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const plan, reason = "down@deletion", "objects cannot be changed while no operator serves its webhooks: "
	found := false
	for _, run := range r.Runs {
		if run.Name == plan {
			found = run.Outcome == report.Untried && strings.HasPrefix(run.UntriedReason, reason)
		}
		if run.Duration >= testkit.DefaultTimeout {
			t.Errorf("%s took %v", run.Name, run.Duration)
		}
	}
	if !found || len(r.Failures()) > 0 {
		var b strings.Builder
		if err := report.WriteText(&b, r, report.Verbose()); err != nil {
			t.Fatal(err)
		}
		t.Errorf("want no failure, and %s untried because %s\n%s", plan, reason, &b)
	}
	close(created)
	classes := kubernetes.NewForConfigOrDie(cfg).SchedulingV1().PriorityClasses()
	for name := range created {
		if _, err := classes.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("PriorityClass %s is left (%v)", name, err)
		}
	}
}

// A test whose operator was stopped deletes what it made, too.
func TestCleanupWithoutOperator(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("test", func(t *testing.T) {
		k := testkit.New(t)
		op := k.Start(tenants(k.Namespace), testkit.ClusterWide())
		name = tenantOf(k.Namespace)
		k.Apply(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1})
		k.Eventually(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, testkit.Exists())
		op.Stop()
	})
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	class := kubernetes.NewForConfigOrDie(cfg).SchedulingV1().PriorityClasses()
	if _, err := class.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("PriorityClass %s is left (%v)", name, err)
	}
}
