package immortalcontainer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/e2e/function/examples"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	name   = "immortalcontainer"
	folder = examples.Folder + name + "/"
	crds   = "../../../../../operators/immortalcontainer/config/crd/"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: crds, RBAC: folder + "config/rbac", Workloads: true, NoUnusedRules: true, AllowedUnusedRules: examples.UnusedRules(
			"immortalcontainers.immortalcontainer.flugel.it"),
	})
}

// The operator replaces a deleted pod. When it is idle it sends no request.
func TestPermissions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := k.Run(examples.Operator(t, name))
	ic := examples.Object("immortalcontainer.flugel.it/v1alpha1", "ImmortalContainer", "a", map[string]any{
		"image": "nginx:1.21",
	})
	k.Apply(ic)
	k.Eventually(ic, testkit.Ready())
	examples.Rest(k, op)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-immortalpod"}}
	k.Delete(pod)
	k.Eventually(ic, testkit.Condition("Ready", metav1.ConditionFalse))
	k.Eventually(ic, testkit.Ready())
	k.Delete(ic)
	k.Eventually(pod, testkit.Gone())
}

// The final state depends on the last specification only.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	examples.Explore(t, name, crds+"immortalcontainer.flugel.it_immortalcontainers.yaml", folder+"sample.yaml")
}
