// Package config_test checks the manifests in the folders beside it the way they are used: with kubectl, on an API
// server. It holds nothing else.
package config_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/assets"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

const (
	namespace = "copyrator-operator"
	crd       = "copyrators.flant.com"
	columns   = "NAME TYPE SOURCES NAMESPACES SYNCED DESIRED CONFLICTS READY AGE"
)

// Installing and installing again, as a person would, leaves what the manifests say, and the second time does nothing.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "with-secrets", "namespaced"} {
		if testing.Short() && overlay != "default" {
			continue // each takes a control plane of its own
		}
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.Private())
			kubectl := kubectlFor(t, k.Config)
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

// admitted creates the operator's pod in its namespace, which admits nothing but restricted pods, without storing it.
func admitted(t *testing.T, k *testkit.K) {
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

// What the operator may do is what it needs: neither everything of a kind, nor any Secret unless that is asked for.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced", "with-secrets"} {
		for _, o := range build(t, overlay) {
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

// Whoever may not install anything cluster-wide can have somebody else install the CRD, and everything else alone.
func TestNamespacedOverlayStaysInItsNamespaces(t *testing.T) {
	t.Parallel()
	var arguments []string
	for _, o := range build(t, "namespaced") {
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

// build returns what kustomize makes of a folder.
func build(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(kubectlFor(t, nil)("kustomize", folder), "\n---\n") {
		o := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// kubectlFor returns a function that runs kubectl against that API server and returns what it prints.
func kubectlFor(t *testing.T, cfg *rest.Config) func(args ...string) string {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Need: []string{assets.Kubectl}})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if cfg != nil {
		if err := clientcmd.WriteToFile(kubeconfigFor(cfg), kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), set.Path(assets.Kubectl), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		var out, warnings bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, &warnings)
		}
		return out.String()
	}
}

func kubeconfigFor(cfg *rest.Config) clientcmdapi.Config {
	const name = "test"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData, InsecureSkipTLSVerify: cfg.Insecure,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}

// The rights in the operator's own namespace are those in the other one, and Secrets are as ConfigMaps.
func TestRightsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	rules := func(overlay, kind, name string) []rbacv1.PolicyRule {
		for _, o := range build(t, overlay) {
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
