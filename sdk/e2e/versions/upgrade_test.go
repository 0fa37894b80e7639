package versions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/sdk/conversion/migration"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/upgrade"
)

const (
	formerSample  = `{"spec": {"size": "10Gi", "color": "red"}, "status": {"phase": "new"}}`
	presentSample = `{"spec": {"sizeGi": 20, "quota": 3}, "status": {"state": "old"}}`
)

// kindOfUpgrade returns the argument of upgrade.Check for a number of objects. A migrator runs until the end of the test.
func (d *kind) kindOfUpgrade(objects int) upgrade.Kind {
	d.t.Helper()
	migrator := &migration.Migrator{CRDs: []string{d.crd.Name}, PerSecond: 1000, Delay: time.Second}
	d.migrator = d.Start(migrator.SetupWithManager)
	return upgrade.Kind{
		CRD: d.crd.Name, Objects: objects,
		Former:  upgrade.Release{Version: "v1alpha1", Sample: d.sample("v1alpha1", formerSample)},
		Present: upgrade.Release{Version: "v1beta1", Sample: d.sample("v1beta1", presentSample)},
	}
}

// sample writes the manifest of an object.
func (d *kind) sample(version, fields string) string {
	d.t.Helper()
	u := d.gate(version, "sample")
	if err := json.Unmarshal([]byte(fields), &u.Object); err != nil {
		d.t.Fatal(err)
	}
	u.SetName("sample")
	data, err := json.Marshal(u)
	if err != nil {
		d.t.Fatal(err)
	}
	name := filepath.Join(d.t.TempDir(), version+".yaml")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return name
}

// Nothing is lost of 50 objects of each version, or 10 with -short.
func TestUpgradeAndDowngrade(t *testing.T) {
	t.Parallel()
	want := 2 * 50
	if testing.Short() {
		want = 2 * 10
	}
	d := install(t, testkit.New(t))
	if err := upgrade.Check(d.K, d.kindOfUpgrade(0)); err != nil {
		t.Error(err)
	}
	all, err := upgrade.Read(t.Context(), d.Client, d.gate("v1beta1", "").GroupVersionKind())
	if err != nil || len(all) != want {
		t.Errorf("%v, there are %d objects, want %d", err, len(all), want)
	}
	d.requireStored("v1beta1")
}

// Each fault of a conversion is found after the first step that loses a field, with the object, the path and both values.
func TestUpgradeReportsLostFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose       func(*unstructured.Unstructured)
		step, want string
	}{
		"kept value": {
			lose: func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "annotations", conversion.Annotation)
			},
			step: "v1beta1 is stored", want: `v1alpha1-00: spec.color: "red" -> unset in v1alpha1`,
		},
		"kept value of the present version": {
			lose: func(u *unstructured.Unstructured) {
				if u.GetAPIVersion() != "" && strings.HasSuffix(u.GetAPIVersion(), "/v1alpha1") {
					unstructured.RemoveNestedField(u.Object, "metadata", "annotations", conversion.Annotation)
				}
			},
			step: "v1alpha1 is stored again", want: "v1beta1-00: spec.quota: 3 -> unset in v1beta1",
		},
		"status": {
			lose: func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "status", "phase") },
			step: "v1beta1 is stored", want: `v1alpha1-00: status.phase: "new" -> unset in v1alpha1`,
		},
		"label": {
			lose: func(u *unstructured.Unstructured) { u.SetLabels(nil) },
			step: "v1beta1 is stored", want: `v1alpha1-00: metadata.labels: {"team":"a"} -> unset in v1alpha1`,
		},
		"value": {
			lose: func(u *unstructured.Unstructured) {
				if size, ok, _ := unstructured.NestedString(u.Object, "spec", "size"); ok && size == "10Gi" {
					_ = unstructured.SetNestedField(u.Object, "11Gi", "spec", "size")
				}
			},
			step: "v1beta1 is stored", want: `v1alpha1-00: spec.size: "10Gi" -> "11Gi" in v1alpha1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := install(t, testkit.New(t), afterConversion(tc.lose))
			kind := d.kindOfUpgrade(2)
			labeled := strings.Replace(formerSample, "{", `{"metadata": {"labels": {"team": "a"}}, `, 1)
			kind.Former.Sample = d.sample("v1alpha1", labeled)
			err := upgrade.Check(d.K, kind)
			requireLost(t, err, d.crd.Name+", after "+tc.step+": ", "Gate "+d.Namespace+"/"+tc.want)
		})
	}
}

// afterConversion returns a middleware that changes each converted object.
func afterConversion(change func(*unstructured.Unstructured)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			recorded := httptest.NewRecorder()
			next.ServeHTTP(recorded, req)
			review := &apiextensionsv1.ConversionReview{}
			if err := json.Unmarshal(recorded.Body.Bytes(), review); err != nil {
				http.Error(out, err.Error(), http.StatusInternalServerError)
				return
			}
			for i := range review.Response.ConvertedObjects {
				u := &unstructured.Unstructured{}
				if err := u.UnmarshalJSON(review.Response.ConvertedObjects[i].Raw); err != nil {
					http.Error(out, err.Error(), http.StatusInternalServerError)
					return
				}
				change(u)
				review.Response.ConvertedObjects[i] = runtime.RawExtension{Object: u}
			}
			out.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(out).Encode(review)
		})
	}
}

func requireLost(t *testing.T, err error, step, field string) {
	t.Helper()
	var lost *upgrade.LostError
	if !errors.As(err, &lost) || !strings.HasPrefix(err.Error(), step) || !slices.Contains(lost.Fields, field) {
		t.Errorf("the error is %v\nwant %q, and the line %q", err, step, field)
	}
}

// An operator that deletes a child, or changes a specification, is found.
func TestUpgradeReportsChangesOfOperators(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		present func(ctx context.Context, c client.Client, gate *unstructured.Unstructured) error
		want    func(namespace string) string
	}{
		"deleted child": {
			present: func(ctx context.Context, c client.Client, gate *unstructured.Unstructured) error {
				return client.IgnoreNotFound(c.Delete(ctx, childOf(gate)))
			},
			want: func(namespace string) string {
				return "Gate " + namespace + "/v1alpha1-00: its child configmaps " + namespace +
					"/v1alpha1-00 was deleted or has another owner"
			},
		},
		"new field": {
			present: func(ctx context.Context, c client.Client, gate *unstructured.Unstructured) error {
				return c.Patch(ctx, gate, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"note":"mine"}}`)))
			},
			want: func(namespace string) string {
				return "Gate " + namespace + `/v1alpha1-00: spec.note: unset -> "mine" in v1alpha1`
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := install(t, testkit.New(t))
			kind := d.kindOfUpgrade(1)
			kind.Former.Start = d.operator(func(ctx context.Context, c client.Client, gate *unstructured.Unstructured) error {
				return client.IgnoreAlreadyExists(c.Create(ctx, childOf(gate)))
			})
			kind.Present.Start = d.operator(tc.present)
			requireLost(t, upgrade.Check(d.K, kind), d.crd.Name+", after v1beta1 is served: ", tc.want(d.Namespace))
		})
	}
}

// Without a migration, the error says what is missing.
func TestUpgradeNeedsMigration(t *testing.T) {
	t.Parallel()
	d := install(t, testkit.New(t))
	kind := d.kindOfUpgrade(1)
	d.migrator.Stop()
	d.Timeout = 3 * time.Second
	err := upgrade.Check(d.K, kind)
	if want := "after v1beta1 is stored: waiting for 3s: status.storedVersions of the CustomResourceDefinition is " +
		"[v1alpha1 v1beta1], not [v1beta1]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}

// operator returns a function that starts an operator of v1alpha1.
func (d *kind) operator(
	reconcileGate func(context.Context, client.Client, *unstructured.Unstructured) error,
) func() *testkit.Instance {
	return func() *testkit.Instance {
		return d.Start(func(mgr manager.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(d.gate("v1alpha1", "")).Complete(reconcile.Func(
				func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					gate := d.gate("v1alpha1", "")
					if err := mgr.GetClient().Get(ctx, req.NamespacedName, gate); err != nil {
						return reconcile.Result{}, client.IgnoreNotFound(err)
					}
					return reconcile.Result{}, reconcileGate(ctx, mgr.GetClient(), gate)
				}))
		})
	}
}

func childOf(gate *unstructured.Unstructured) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: gate.GetName(), Namespace: gate.GetNamespace(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(gate, gate.GroupVersionKind())},
	}}
}
