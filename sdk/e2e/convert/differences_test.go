package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/desired"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/testkit"
)

// repeats is the number of reconciles in the tests that count requests.
const repeats = 3

func TestRequestsWhenIdle(t *testing.T) {
	t.Parallel()
	compare(t, "requests in 3 passes with nothing to do", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t)
		op := e.start(f)
		return len(e.reconcileTimes(op, e.createReady(), repeats))
	})
}

// rewriteImages makes the API server redirect the images of Deployments in the namespace to a mirror, as a webhook does.
func rewriteImages(e env) {
	name := e.Namespace + ".convert.homeostat.dev"
	const expression = `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: ` +
		`object.spec.template.spec.containers.filter(c, !c.image.startsWith("mirror/")).map(c, ` +
		`Object.spec.template.spec.containers{name: c.name, image: "mirror/" + c.image})}}}}`
	e.Apply(&admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
						},
					},
				}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
			}},
		},
	})
	e.Apply(&admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	})
}

func TestImageRewrittenAtAdmission(t *testing.T) {
	t.Parallel()
	compare(t, "... while admission rewrites the image", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t)
		rewriteImages(e)
		e.Wait("the policy takes effect", func(ctx context.Context) error {
			app := newWebapp()
			app.Namespace = e.Namespace
			probe := desired.Deployment(app)
			err := e.Client.Create(ctx, probe, client.DryRunAll)
			if err != nil || probe.Spec.Template.Spec.Containers[0].Image != "mirror/shop:1" {
				return errors.Join(err, errors.New("it does not yet"))
			}
			return nil
		})
		op := e.start(f)
		app := newWebapp()
		e.Apply(app)
		e.Eventually(e.deployment(), testkit.Exists())
		return len(e.reconcileTimes(op, app, repeats))
	})
}

// Another controller, such as one that restarts pods when a Secret changes, adds a variable to our container.
func TestVariableOfAnotherController(t *testing.T) {
	t.Parallel()
	compare(t, "a variable that another controller adds to the container", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t)
		op := e.start(f)
		e.createReady()
		e.sent(op)
		d, since := e.deployment(), e.reconciles.Load()
		e.patch(t, d, types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"SECRET_HASH","value":"1"}]}]}}}}`)
		e.waitReconcile(since)
		e.sent(op)
		e.Get(d)
		return keptOrLost(slices.Contains(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "SECRET_HASH", Value: "1"}))
	})
}

func keptOrLost(yes bool) string {
	if yes {
		return "kept"
	}
	return "lost"
}

// createConflictingService creates a Service with the name of the Webapp's Service. It returns the result for the Service.
func createConflictingService(t *testing.T, f form, owners ...metav1.OwnerReference) string {
	t.Helper()
	e := newEnv(t)
	s := e.service()
	s.OwnerReferences = owners
	s.Spec = corev1.ServiceSpec{Selector: map[string]string{"other": "program"}, Ports: []corev1.ServicePort{{Port: 53}}}
	if len(owners) > 0 {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		e.Apply(owner)
		s.OwnerReferences[0].UID = owner.UID
	}
	e.Apply(s)
	op := e.start(f)
	app := newWebapp()
	e.Apply(app)
	e.Eventually(app, testkit.Condition("Ready", metav1.ConditionFalse))
	e.sent(op)
	if e.Get(s); metav1.IsControlledBy(s, app) {
		e.Delete(app)
		e.Eventually(s, testkit.Gone())
		return "taken, and deleted with the Webapp"
	}
	e.Eventually(app, testkit.Match("the message names the Service", func(app *api.Webapp) bool {
		return strings.Contains(meta.FindStatusCondition(app.Status.Conditions, "Ready").Message, "Service")
	}))
	if e.Get(s); s.Spec.Selector["other"] != "program" || s.Spec.Ports[0].Port != 53 {
		t.Errorf("the Service was changed: %+v", s.Spec)
	}
	return "refused"
}

func TestUncontrolledService(t *testing.T) {
	t.Parallel()
	compare(t, "a Service of that name without a controller", func(t *testing.T, f form) any {
		t.Helper()
		return createConflictingService(t, f)
	})
}

func TestServiceOfAnotherController(t *testing.T) {
	t.Parallel()
	compare(t, "a Service of that name that another controls", func(t *testing.T, f form) any {
		t.Helper()
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", Controller: new(true)}
		return createConflictingService(t, f, owner)
	})
}

// The API server rejects the Deployment until a user edits the Webapp.
func TestRejectedImage(t *testing.T) {
	t.Parallel()
	compare(t, "what kstatus says when the API server refuses a child", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t, testkit.WithoutOracles("a Webapp without an image", testkit.Refused))
		e.start(f)
		app := newWebapp()
		app.Spec.Image = ""
		e.Apply(app)
		e.Eventually(app, testkit.Match("reported", func(app *api.Webapp) bool {
			ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
			return ready != nil && strings.Contains(ready.Message, "image")
		}))
		seen := &unstructured.Unstructured{}
		seen.SetGroupVersionKind(api.GroupVersion.WithKind("Webapp"))
		seen.SetNamespace(app.Namespace)
		seen.SetName(app.Name)
		e.Get(seen)
		result, err := status.Compute(seen)
		if err != nil {
			t.Fatal(err)
		}
		e.Update(app, func() { app.Spec.Image = "shop:1" })
		e.completeRollout(app)
		e.Eventually(app, testkit.Ready())
		return string(result.Status)
	})
}

// failOnce responds to the next write of a Deployment with an internal error.
type failOnce struct {
	armed atomic.Bool
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *failOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	write := req.Method == http.MethodPut || req.Method == http.MethodPatch
	if !write || !strings.Contains(req.URL.Path, "/deployments/") || !f.armed.CompareAndSwap(true, false) {
		return f.next.RoundTrip(req)
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd has no leader","code":500}`
	return &http.Response{
		Status: "500 Internal Server Error", StatusCode: http.StatusInternalServerError, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// Another actor edits a child of a ready Webapp, and the first attempt to repair it fails.
func TestTransientFailure(t *testing.T) {
	t.Parallel()
	compare(t, "Ready while one repair of a child fails once", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t)
		fault := &failOnce{}
		op := e.start(f, testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
			fault.next = next
			return fault
		}))
		app := e.createReady()
		e.sent(op)
		watch, err := e.Client.Watch(e.Context(), &api.WebappList{}, client.InNamespace(e.Namespace))
		if err != nil {
			t.Fatal(err)
		}
		fault.armed.Store(true)
		e.patch(t, e.deployment(), types.MergePatchType, `{"metadata":{"labels":{"webapp":"other"}}}`)
		e.Eventually(e.deployment(), testkit.Match("repaired", func(o client.Object) bool {
			return o.GetLabels()["webapp"] == "shop" && !fault.armed.Load()
		}))
		e.sent(op)
		e.Update(app, func() { app.Labels = map[string]string{"last": "event"} })
		for event := range watch.ResultChan() {
			seen, ok := event.Object.(*api.Webapp)
			switch {
			case !ok:
				t.Fatalf("watching: %v", event.Object)
			case !meta.IsStatusConditionTrue(seen.Status.Conditions, "Ready"):
				watch.Stop()
				return "False"
			case seen.Labels["last"] == "event":
				watch.Stop()
				return "True"
			}
		}
		return "unknown"
	})
}

// The next version of the operator knows one more field. This version runs beside it in a rollout, or after it in a
// rollback.
func TestFieldOfTheNextVersion(t *testing.T) {
	t.Parallel()
	compare(t, "a field of the spec that the program does not know", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t, testkit.WithoutOracles("the forms differ in that", testkit.SpecWritten))
		seen := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"image": "shop:1", "replicas": int64(2), "port": int64(8080), "team": "red",
		}}}
		seen.SetGroupVersionKind(api.GroupVersion.WithKind("Webapp"))
		seen.SetName("shop")
		e.Apply(seen)
		op := e.start(f)
		app := newWebapp()
		e.Eventually(app, testkit.Exists())
		e.completeRollout(app)
		e.Eventually(app, testkit.Ready())
		e.sent(op)
		e.Get(seen)
		team, _, _ := unstructured.NestedString(seen.Object, "spec", "team")
		return keptOrLost(team == "red")
	})
}

// concurrentWriter is a transport that calls write just before the operator's first write of the Webapp.
type concurrentWriter struct {
	once  sync.Once
	next  http.RoundTripper
	write func(context.Context) error
	err   error
}

const foreignFinalizer = "example.com/backup"

// RoundTrip implements http.RoundTripper.
func (m *concurrentWriter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && strings.HasSuffix(req.URL.Path, "/webapps/shop") {
		m.once.Do(func() { m.err = m.write(req.Context()) })
	}
	return m.next.RoundTrip(req)
}

func TestFinalizerOfAnotherController(t *testing.T) {
	t.Parallel()
	compare(t, "a finalizer that another controller adds meanwhile", func(t *testing.T, f form) any {
		t.Helper()
		e := newEnv(t)
		m := &concurrentWriter{write: func(ctx context.Context) error {
			o := newWebapp()
			o.Namespace = e.Namespace
			patch := fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, foreignFinalizer)
			return e.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
		}}
		op := e.start(f, testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
			m.next = next
			return m
		}))
		app := e.createReady()
		e.sent(op)
		if e.Get(app); m.err != nil || len(app.Finalizers) == 0 {
			t.Fatalf("adding the foreign finalizer: %v, finalizers %v", m.err, app.Finalizers)
		}
		return keptOrLost(slices.Contains(app.Finalizers, foreignFinalizer))
	})
}

// The resourceVersion in a write protects foreign finalizers. A patch with MergeFrom has none.
func TestWaysToWriteAFinalizer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write    func(ctx context.Context, c client.Client, app *api.Webapp) error
		conflict bool
		kept     bool
	}{
		"Update": {func(ctx context.Context, c client.Client, app *api.Webapp) error {
			controllerutil.AddFinalizer(app, "convert.homeostat.dev/target")
			return c.Update(ctx, app)
		}, true, true},
		"Patch with MergeFrom": {func(ctx context.Context, c client.Client, app *api.Webapp) error {
			from := app.DeepCopy()
			controllerutil.AddFinalizer(app, "convert.homeostat.dev/target")
			return c.Patch(ctx, app, client.MergeFrom(from))
		}, false, false},
		"finalizer.Add": {func(ctx context.Context, c client.Client, app *api.Webapp) error {
			_, err := finalizer.Add(ctx, c, app, "convert.homeostat.dev/target")
			return err
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			app := newWebapp()
			e.Apply(app)
			stale := app.DeepCopy()
			e.Update(app, func() { app.Finalizers = []string{foreignFinalizer} })
			err := test.write(e.Context(), e.Client, stale)
			if apierrors.IsConflict(err) != test.conflict || (err == nil) == test.conflict {
				t.Errorf("writing returned %v", err)
			}
			if e.Get(app); slices.Contains(app.Finalizers, foreignFinalizer) != test.kept {
				t.Errorf("the finalizers are %v", app.Finalizers)
			}
		})
	}
}
