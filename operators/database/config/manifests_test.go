// Package config_test tests the manifests in the folders beside it with kubectl on an API server.
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
	namespace = "database-operator"
	crd       = "databases.techoral.com"
	columns   = "NAME ENGINE VERSION READY STATE ENDPOINT AGE"
)

// Installing twice leaves the state of the manifests, and the second time changes nothing.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		if testing.Short() && overlay != "default" {
			continue // each uses a control plane of its own
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
			admitted(t, k)
		})
	}
}

// admitted creates the operator's pod with a dry run. Its namespace enforces the restricted profile.
func admitted(t *testing.T, k *testkit.K) {
	t.Helper()
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "database-controller", Namespace: namespace}}
	k.Get(controller)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: namespace}, Spec: controller.Spec.Template.Spec,
	}
	if err := k.Client.Create(k.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("the operator's pod is not admitted: %v", err)
	}
}

// The ClusterRole has no wildcards.
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
				if slices.Contains(all, "*") {
					t.Errorf("%s: %s %s has the rule %v", overlay, o.GetKind(), o.GetName(), rule)
				}
			}
		}
	}
}

// A user without cluster-wide permissions can install everything but the CRD, which an administrator installs.
func TestNamespacedOverlayStaysInItsNamespaces(t *testing.T) {
	t.Parallel()
	var arguments []string
	for _, o := range testkit.Kustomize(t, "namespaced") {
		switch o.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "ConfigMap":
			t.Errorf("it contains %s %s", o.GetKind(), o.GetName())
		case "Role", "RoleBinding":
			want := namespace
			if o.GetName() == "database-operator" {
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
