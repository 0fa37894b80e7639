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

// looks is how often an operator looks again in the tests that count what that costs.
const looks = 3

func TestRequestsAtRest(t *testing.T) {
	t.Parallel()
	compare(t, "requests in 3 passes with nothing to do", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t)
		op := w.start(f)
		return len(w.passes(op, w.ready(), looks))
	})
}

// mirror makes the API server send the image of every Deployment in the namespace through a mirror, as a webhook does.
func mirror(w world) {
	name := w.Namespace + ".convert.homeostat.dev"
	const expression = `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: ` +
		`object.spec.template.spec.containers.filter(c, !c.image.startsWith("mirror/")).map(c, ` +
		`Object.spec.template.spec.containers{name: c.name, image: "mirror/" + c.image})}}}}`
	w.Apply(&admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}},
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
	w.Apply(&admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	})
}

func TestImageRewrittenAtAdmission(t *testing.T) {
	t.Parallel()
	compare(t, "... while admission rewrites the image", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t)
		mirror(w)
		w.Wait("the policy takes effect", func(ctx context.Context) error {
			app := newWebapp()
			app.Namespace = w.Namespace
			probe := desired.Deployment(app)
			err := w.Client.Create(ctx, probe, client.DryRunAll)
			if err != nil || probe.Spec.Template.Spec.Containers[0].Image != "mirror/shop:1" {
				return errors.Join(err, errors.New("it does not"))
			}
			return nil
		})
		op := w.start(f)
		app := newWebapp()
		w.Apply(app)
		w.Eventually(w.deployment(), testkit.Exists())
		return len(w.passes(op, app, looks))
	})
}

// A controller such as one that restarts pods when a Secret changes adds a variable to a container of ours.
func TestVariableOfAnotherController(t *testing.T) {
	t.Parallel()
	compare(t, "a variable that another controller adds to the container", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t)
		op := w.start(f)
		w.ready()
		d := w.deployment()
		w.patch(t, d, types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"SECRET_HASH","value":"1"}]}]}}}}`)
		w.sent(op)
		w.Get(d)
		return kept(slices.Contains(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "SECRET_HASH", Value: "1"}))
	})
}

func kept(yes bool) string {
	if yes {
		return "kept"
	}
	return "lost"
}

// squat makes a Service of the name that the Webapp's will have, and says what becomes of it.
func squat(t *testing.T, f form, owners ...metav1.OwnerReference) string {
	t.Helper()
	w := newWorld(t)
	s := w.service()
	s.OwnerReferences = owners
	s.Spec = corev1.ServiceSpec{Selector: map[string]string{"other": "program"}, Ports: []corev1.ServicePort{{Port: 53}}}
	if len(owners) > 0 {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		w.Apply(owner)
		s.OwnerReferences[0].UID = owner.UID
	}
	w.Apply(s)
	op := w.start(f)
	app := newWebapp()
	w.Apply(app)
	w.Eventually(app, testkit.Condition("Ready", metav1.ConditionFalse))
	w.sent(op)
	if w.Get(s); metav1.IsControlledBy(s, app) {
		w.Delete(app)
		w.Eventually(s, testkit.Gone())
		return "taken, and deleted with the Webapp"
	}
	w.Eventually(app, testkit.Match("the message names the Service", func(app *api.Webapp) bool {
		return strings.Contains(meta.FindStatusCondition(app.Status.Conditions, "Ready").Message, "Service")
	}))
	if w.Get(s); s.Spec.Selector["other"] != "program" || s.Spec.Ports[0].Port != 53 {
		t.Errorf("the Service was changed: %+v", s.Spec)
	}
	return "refused"
}

func TestServiceOfNobody(t *testing.T) {
	t.Parallel()
	compare(t, "a Service of that name that nobody controls", func(t *testing.T, f form) any {
		t.Helper()
		return squat(t, f)
	})
}

func TestServiceOfAnother(t *testing.T) {
	t.Parallel()
	compare(t, "a Service of that name that another controls", func(t *testing.T, f form) any {
		t.Helper()
		return squat(t, f, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", Controller: new(true)})
	})
}

// The API server refuses the Deployment, and will until somebody edits the Webapp.
func TestRefusedImage(t *testing.T) {
	t.Parallel()
	compare(t, "what kstatus says when the API server refuses a child", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t, testkit.Without("a Webapp without an image", testkit.Refused))
		w.start(f)
		app := newWebapp()
		app.Spec.Image = ""
		w.Apply(app)
		w.Eventually(app, testkit.Match("told", func(app *api.Webapp) bool {
			ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
			return ready != nil && strings.Contains(ready.Message, "image")
		}))
		seen := &unstructured.Unstructured{}
		seen.SetGroupVersionKind(api.GroupVersion.WithKind("Webapp"))
		seen.SetNamespace(app.Namespace)
		seen.SetName(app.Name)
		w.Get(seen)
		result, err := status.Compute(seen)
		if err != nil {
			t.Fatal(err)
		}
		w.Update(app, func() { app.Spec.Image = "shop:1" })
		w.work(app)
		w.Eventually(app, testkit.Ready())
		return string(result.Status)
	})
}

// failOnce answers the next write of a Deployment with an error of the server.
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

// Somebody edits a child of a working Webapp, and the first attempt to repair that fails.
func TestFailureThatPasses(t *testing.T) {
	t.Parallel()
	compare(t, "Ready while one repair of a child fails once", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t)
		fault := &failOnce{}
		op := w.start(f, testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
			fault.next = next
			return fault
		}))
		app := w.ready()
		w.sent(op)
		watch, err := w.Client.Watch(w.Context(), &api.WebappList{}, client.InNamespace(w.Namespace))
		if err != nil {
			t.Fatal(err)
		}
		fault.armed.Store(true)
		w.patch(t, w.deployment(), types.MergePatchType, `{"metadata":{"labels":{"webapp":"other"}}}`)
		w.Eventually(w.deployment(), testkit.Match("repaired", func(o client.Object) bool {
			return o.GetLabels()["webapp"] == "shop" && !fault.armed.Load()
		}))
		w.sent(op)
		w.Update(app, func() { app.Labels = map[string]string{"last": "event"} })
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

// The next version of the operator knows one more field. This one runs beside it, or after it in a roll-back.
func TestFieldOfTheNextVersion(t *testing.T) {
	t.Parallel()
	compare(t, "a field of the spec that the program does not know", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t, testkit.Without("the forms are told apart by that", testkit.SpecWritten))
		seen := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"image": "shop:1", "replicas": int64(2), "port": int64(8080), "team": "red",
		}}}
		seen.SetGroupVersionKind(api.GroupVersion.WithKind("Webapp"))
		seen.SetName("shop")
		w.Apply(seen)
		op := w.start(f)
		app := newWebapp()
		w.Eventually(app, testkit.Exists())
		w.work(app)
		w.Eventually(app, testkit.Ready())
		w.sent(op)
		w.Get(seen)
		team, _, _ := unstructured.NestedString(seen.Object, "spec", "team")
		return kept(team == "red")
	})
}

// meddler lets another controller add its finalizer just before the operator's first write of the Webapp arrives.
type meddler struct {
	once sync.Once
	next http.RoundTripper
	do   func(context.Context) error
	err  error
}

const theirs = "example.com/backup"

// RoundTrip implements http.RoundTripper.
func (m *meddler) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && strings.HasSuffix(req.URL.Path, "/webapps/shop") {
		m.once.Do(func() { m.err = m.do(req.Context()) })
	}
	return m.next.RoundTrip(req)
}

func TestFinalizerOfAnotherController(t *testing.T) {
	t.Parallel()
	compare(t, "a finalizer that another controller adds meanwhile", func(t *testing.T, f form) any {
		t.Helper()
		w := newWorld(t)
		m := &meddler{do: func(ctx context.Context) error {
			o := newWebapp()
			o.Namespace = w.Namespace
			patch := fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, theirs)
			return w.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
		}}
		op := w.start(f, testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper {
			m.next = next
			return m
		}))
		app := w.ready()
		w.sent(op)
		if w.Get(app); m.err != nil || len(app.Finalizers) == 0 {
			t.Fatalf("adding their finalizer: %v, there are %v", m.err, app.Finalizers)
		}
		return kept(slices.Contains(app.Finalizers, theirs))
	})
}

// What protects a finalizer is the version that goes with the write, and one way to write has none.
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
			w := newWorld(t)
			app := newWebapp()
			w.Apply(app)
			stale := app.DeepCopy()
			w.Update(app, func() { app.Finalizers = []string{theirs} })
			err := test.write(w.Context(), w.Client, stale)
			if apierrors.IsConflict(err) != test.conflict || (err == nil) == test.conflict {
				t.Errorf("writing returned %v", err)
			}
			if w.Get(app); slices.Contains(app.Finalizers, theirs) != test.kept {
				t.Errorf("the finalizers are %v", app.Finalizers)
			}
		})
	}
}
