package versions

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{AddToScheme: apiextensionsv1.AddToScheme})
}

// schemas are those of v1alpha1 and v1beta1. The field color is in the first one only, and quota in the second.
const schemas = `
- name: v1alpha1
  served: true
  storage: true
  subresources: {status: {}}
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size: {type: string, pattern: '^[0-9]{1,4}Gi$'}
            color: {type: string}
            note: {type: string}
        status:
          type: object
          properties:
            phase: {type: string}
- name: v1beta1
  served: true
  storage: false
  subresources: {status: {}}
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            sizeGi: {type: integer}
            quota: {type: integer}
            note: {type: string}
        status:
          type: object
          properties:
            state: {type: string}
`

// kind is a kind that only one test uses.
type kind struct {
	*testkit.K

	t     *testing.T
	group string
	crd   *apiextensionsv1.CustomResourceDefinition

	migrator *testkit.Instance // of kindOfUpgrade
}

// install serves the conversion webhook and installs the CustomResourceDefinition. Both are gone after the test. Of several
// middlewares, the first one is the outermost.
func install(t *testing.T, k *testkit.K, middlewares ...func(http.Handler) http.Handler) *kind {
	t.Helper()
	d := &kind{K: k, t: t, group: k.Namespace + ".homeostat.dev"}
	handler, err := conversion.Handler(&conversion.Kind{
		GroupKind: schema.GroupKind{Group: d.group, Kind: "Gate"},
		Hub:       "v1beta1",
		Versions: []conversion.Version{{Name: "v1alpha1", Lenses: []conversion.Lens{
			conversion.Split("spec.size", []string{"spec.sizeGi"}, parseSize, formatSize),
			conversion.SpokeOnly("spec.color"),
			conversion.HubOnly("spec.quota"),
			conversion.Rename("status.phase", "status.state"),
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrap := range slices.Backward(middlewares) {
		handler = wrap(handler)
	}
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	d.crd = &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gates." + d.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: d.group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Gate", Plural: "gates"},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig: &apiextensionsv1.WebhookClientConfig{
						URL:      new(server.URL + "/convert"),
						CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
					},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
	if err := yaml.UnmarshalStrict([]byte(schemas), &d.crd.Spec.Versions); err != nil {
		t.Fatal(err)
	}
	if err := k.Client.Create(t.Context(), d.crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.uninstall)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		k.Wait("version "+version, func(ctx context.Context) error {
			return k.Client.List(ctx, d.list(version), client.InNamespace(k.Namespace))
		})
	}
	return d
}

// uninstall removes the CustomResourceDefinition while the webhook is served.
func (d *kind) uninstall() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), 20*time.Second)
	defer cancel()
	if err := d.Client.Delete(ctx, d.crd); client.IgnoreNotFound(err) != nil {
		d.t.Error(err)
	}
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return d.Client.Get(ctx, client.ObjectKeyFromObject(d.crd), d.crd) != nil, nil
	})
	if err != nil {
		d.t.Error(err)
	}
}

func parseSize(text string) ([]any, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "Gi"))
	if err != nil {
		return nil, fmt.Errorf("%q is no size such as 10Gi", text)
	}
	return []any{n}, nil
}

func formatSize(n []any) (string, error) { return fmt.Sprintf("%vGi", n[0]), nil }

func (d *kind) gate(version, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(d.group + "/" + version)
	u.SetKind("Gate")
	u.SetName(name)
	u.SetNamespace(d.Namespace)
	return u
}

func (d *kind) list(version string) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetAPIVersion(d.group + "/" + version)
	u.SetKind("GateList")
	return u
}

// get returns an object in a version.
func (d *kind) get(version, name string) *unstructured.Unstructured {
	u := d.gate(version, name)
	d.K.Get(u)
	return u
}

// create creates an object with a spec.
func (d *kind) create(version, name string, spec map[string]any) {
	d.t.Helper()
	u := d.gate(version, name)
	u.Object["spec"] = spec
	if err := d.Client.Create(d.t.Context(), u); err != nil {
		d.t.Fatal(err)
	}
}

// store makes a version the storage version.
func (d *kind) store(version string) {
	d.Update(d.crd, func() {
		for i := range d.crd.Spec.Versions {
			v := &d.crd.Spec.Versions[i]
			v.Storage = v.Name == version
		}
	})
}
