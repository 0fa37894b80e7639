package myapp_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/e2e/function/examples"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

const (
	name   = "myapp"
	folder = examples.Folder + name + "/"
	crds   = "../../../../../operators/myapp/config/crd/"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: crds, RBAC: folder + "config/rbac", Workloads: true,
		NoUnusedRules: true, AllowedUnusedRules: examples.UnusedRules("myapps.mycompany.com"),
	})
}

func app(host string, maximum int64) *unstructured.Unstructured {
	return examples.Object("mycompany.com/v1", "MyApp", "a", map[string]any{
		"image": "nginx:1.21", "service": map[string]any{"enabled": true},
		"ingress":     map[string]any{"enabled": true, "host": host},
		"autoscaling": map[string]any{"minReplicas": int64(1), "maxReplicas": maximum},
		"storage":     map[string]any{"enabled": false},
	})
}

// The operator makes, changes and removes all its children. When it is idle it sends no request.
func TestPermissions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := k.Run(examples.Operator(t, name))
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	a := app("a.example.com", 2)
	k.Apply(a)
	k.Eventually(a, testkit.Ready())
	examples.Rest(k, op)
	a = app("b.example.com", 3)
	k.Apply(a)
	k.Eventually(ingress, testkit.Match("the new host", func(i *networkingv1.Ingress) bool {
		return i.Spec.Rules[0].Host == "b.example.com"
	}))
	k.Eventually(scaler, testkit.Match("the new maximum", func(s *autoscalingv2.HorizontalPodAutoscaler) bool {
		return s.Spec.MaxReplicas == 3
	}))
	k.Apply(examples.Object("mycompany.com/v1", "MyApp", "a", map[string]any{
		"image": "nginx:1.21", "storage": map[string]any{"enabled": false},
	}))
	k.Eventually(ingress, testkit.Gone())
	k.Eventually(scaler, testkit.Gone())
	k.Eventually(a, testkit.Ready())
	k.Delete(a)
	k.Eventually(a, testkit.Gone())
}

// The operator reads an object of another owner that has the name of a child, and leaves it alone.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	for _, foreign := range []*unstructured.Unstructured{
		examples.Object("networking.k8s.io/v1", "Ingress", "a", map[string]any{"defaultBackend": map[string]any{
			"service": map[string]any{"name": "other", "port": map[string]any{"number": int64(80)}},
		}}),
		examples.Object("autoscaling/v2", "HorizontalPodAutoscaler", "a", map[string]any{
			"maxReplicas": int64(9), "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"},
		}),
	} {
		t.Run(foreign.GetKind(), func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Apply(foreign)
			k.Run(examples.Operator(t, name))
			a := app("a.example.com", 2)
			k.Apply(a)
			k.Eventually(a, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"))
		})
	}
}

// The final state depends on the last specification only.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	examples.Explore(t, name, crds+"mycompany.com_myapps.yaml", folder+"sample.yaml",
		gen.AllowResidue("persistentvolumeclaims")) // the default of deletionPolicy keeps them
}
