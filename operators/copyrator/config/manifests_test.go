// Package config_test tests the manifests in its subfolders with kubectl on an API server.
package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	namespace = "copyrator-operator"
	crd       = "copyrators.flant.com"
	columns   = "NAME TYPE SOURCES NAMESPACES SYNCED DESIRED CONFLICTS READY AGE"
)

// Installing twice is idempotent.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "with-secrets", "namespaced"} {
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
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "copyrator-controller", Namespace: namespace}}
	k.Get(controller)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: namespace}, Spec: controller.Spec.Template.Spec,
	}
	if err := k.Client.Create(k.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("the operator's pod is not admitted: %v", err)
	}
}

// The roles have no wildcard, and Secrets only in with-secrets.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced", "with-secrets"} {
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
				secrets := slices.Contains(rule.Resources, "secrets") && overlay != "with-secrets"
				if slices.Contains(all, "*") || secrets {
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
			if o.GetName() == "copyrator-operator" {
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
	if !slices.Contains(arguments, "--watch-namespaces=copyrator-operator,default") {
		t.Errorf("the controller gets the arguments %q", arguments)
	}
}

// The role for the operator's namespace equals the other one, and the permissions for Secrets equal those for ConfigMaps.
func TestRolesAreEqual(t *testing.T) {
	t.Parallel()
	rules := func(overlay, kind, name string) []rbacv1.PolicyRule {
		for _, o := range testkit.Kustomize(t, overlay) {
			if o.GetKind() != kind || o.GetName() != name {
				continue
			}
			role := &rbacv1.ClusterRole{} // a Role has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			return role.Rules
		}
		t.Fatalf("%s has no %s %s", overlay, kind, name)
		return nil
	}
	all := rules("default", "ClusterRole", "copyrator-operator")
	for _, name := range []string{"copyrator-operator", "copyrator-own"} {
		if diff := cmp.Diff(all, rules("namespaced", "Role", name)); diff != "" {
			t.Errorf("Role %s differs from the ClusterRole (-want +got):\n%s", name, diff)
		}
	}
	all = rules("with-secrets", "ClusterRole", "copyrator-operator")
	secrets := all[len(all)-1:]
	for _, rule := range all {
		if slices.Equal(rule.Resources, []string{"configmaps"}) {
			rule.Resources = []string{"secrets"}
			if diff := cmp.Diff([]rbacv1.PolicyRule{rule}, secrets); diff != "" {
				t.Errorf("the rights for Secrets differ from those for ConfigMaps (-want +got):\n%s", diff)
			}
		}
	}
}
