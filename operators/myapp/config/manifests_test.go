// Package config_test tests the manifests in its subfolders with kubectl on an API server.
package config_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

const (
	namespace = "myapp-operator"
	crd       = "myapps.mycompany.com"
	columns   = "NAME IMAGE READY REPLICAS VOLUME PHASE AGE"
)

// Installing twice is idempotent.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		if testing.Short() && overlay != "default" {
			continue // each takes a control plane of its own
		}
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.Private())
			kubectl := testkit.Kubectl(t, k.Config)
			kubectl("apply", "-k", overlay)
			for line := range strings.Lines(kubectl("apply", "-k", overlay)) {
				if !strings.HasSuffix(line, " unchanged\n") {
					t.Errorf("installing it again changes something: %s", line)
				}
			}
			definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd}}
			k.Eventually(definition, testkit.Condition("Established", metav1.ConditionTrue))
			kubectl("apply", "-k", "samples")
			header, _, _ := strings.Cut(kubectl("get", crd), "\n")
			if got := strings.Join(strings.Fields(header), " "); got != columns {
				t.Errorf("the columns are %s, want %s", got, columns)
			}
			checkPodAdmission(t, k)
		})
	}
}

// checkPodAdmission creates the operator's pod in its namespace, with a dry run. The namespace admits restricted pods
// only.
func checkPodAdmission(t *testing.T, k *testkit.K) {
	t.Helper()
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "myapp-controller", Namespace: namespace}}
	k.Get(controller)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: namespace}, Spec: controller.Spec.Template.Spec,
	}
	if err := k.Client.Create(k.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("the operator's pod is not admitted: %v", err)
	}
}

// The roles have no wildcard and no Secrets.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		for _, o := range testkit.Kustomize(t, overlay) {
			if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
				continue
			}
			role := &rbacv1.ClusterRole{} // a Role has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
				if slices.Contains(all, "*") || slices.Contains(rule.Resources, "secrets") {
					t.Errorf("%s: %s %s has the rule %v", overlay, o.GetKind(), o.GetName(), rule)
				}
			}
		}
	}
}

// The namespaced overlay has no cluster-scoped objects but the CRD, so that users without cluster-wide permissions can
// install it.
func TestNamespacedOverlayStaysInItsNamespaces(t *testing.T) {
	t.Parallel()
	var arguments []string
	for _, o := range testkit.Kustomize(t, "namespaced") {
		switch o.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "ConfigMap":
			t.Errorf("it contains %s %s", o.GetKind(), o.GetName())
		case "Role", "RoleBinding":
			want := namespace
			if o.GetName() == "myapp-operator" {
				want = "default"
			}
			if o.GetNamespace() != want {
				t.Errorf("%s %s is in namespace %q, want %q", o.GetKind(), o.GetName(), o.GetNamespace(), want)
			}
		case "Deployment":
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			container, _ := containers[0].(map[string]any)
			arguments, _, _ = unstructured.NestedStringSlice(container, "args")
		}
	}
	if !slices.Contains(arguments, "--watch-namespaces=default") {
		t.Errorf("the controller gets the arguments %q", arguments)
	}
}
