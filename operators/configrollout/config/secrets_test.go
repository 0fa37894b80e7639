package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	role    = "configrollout-operator"
	ownRole = "configrollout-leader-election"
)

// withComponent builds an overlay with a component.
func withComponent(t *testing.T, overlay, component string) []unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(dir, here) // kustomize accepts only relative paths
	if err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf("resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/%[3]s]\n", up, overlay, component)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return testkit.Kustomize(t, dir)
}

// The component sets the flag --secrets and grants read access to Secrets, in both overlays. In the operator's own namespace
// it grants the creation of Secrets, for the key of the digests, and no other write access.
func TestSecretsComponent(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		var arguments, verbs []string
		var own []rbacv1.PolicyRule
		core, secrets := []string{""}, []string{"secrets"}
		for _, o := range withComponent(t, overlay, "secrets") {
			switch {
			case o.GetKind() == "Deployment":
				arguments = argumentsOf(o)
			case o.GetName() == role && strings.HasSuffix(o.GetKind(), "Role"):
				verbs = secretVerbs(t, o)
			case o.GetName() == ownRole && o.GetKind() == "Role":
				own = secretRules(t, o)
			}
		}
		if !slices.Contains(arguments, "--secrets") {
			t.Errorf("%s: the controller gets the arguments %q", overlay, arguments)
		}
		if want := []string{"get", "list", "watch"}; !slices.Equal(verbs, want) {
			t.Errorf("%s: it may %q Secrets, want %q", overlay, verbs, want)
		}
		want := []rbacv1.PolicyRule{
			{APIGroups: core, Resources: secrets, ResourceNames: []string{digest.KeySecret}, Verbs: []string{"get"}},
			{APIGroups: core, Resources: secrets, Verbs: []string{"create"}},
		}
		if diff := cmp.Diff(want, own); diff != "" {
			t.Errorf("%s: rules for Secrets in its own namespace, -want +got:\n%s", overlay, diff)
		}
	}
}

func secretVerbs(t *testing.T, o unstructured.Unstructured) []string {
	t.Helper()
	for _, rule := range secretRules(t, o) {
		return rule.Verbs
	}
	return nil
}

// secretRules returns the rules for Secrets of a role.
func secretRules(t *testing.T, o unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	return slices.DeleteFunc(rules(t, o), func(rule rbacv1.PolicyRule) bool {
		return !slices.Contains(rule.Resources, "secrets")
	})
}

func rules(t *testing.T, o unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	role := &rbacv1.ClusterRole{} // a Role has the same fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

func argumentsOf(deployment unstructured.Unstructured) []string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	container, _ := containers[0].(map[string]any)
	arguments, _, _ := unstructured.NestedStringSlice(container, "args")
	return arguments
}

// The permissions of the component are sufficient: the operator creates its key and rolls the users of a Secret.
func TestPermissionsOfTheSecretsComponent(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var all []rbacv1.PolicyRule
	for _, o := range withComponent(t, "default", "secrets") {
		if name := o.GetName(); strings.HasSuffix(o.GetKind(), "Role") && (name == role || name == ownRole) {
			all = append(all, rules(t, o)...)
		}
	}
	options := configrollout.DefaultOptions()
	options.Secrets = true
	options.KeyNamespace = k.Namespace
	options.QuietPeriod = 0
	op, err := configrollout.New(options)
	if err != nil {
		t.Fatal(err)
	}
	k.Run(op, testkit.WithConfig(accountWith(t, k, all)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "conf"}, StringData: map[string]string{"a": "1"}}
	k.Apply(secret)
	d := example("", "a")[1].(*appsv1.Deployment)
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}},
	}}
	k.Apply(d)
	k.Eventually(d, testkit.Match("recorded with a key", func(d *appsv1.Deployment) bool {
		return digest.KeyID(d.Annotations[annotation.ObservedDigest]) != ""
	}))
	k.Get(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: digest.KeySecret}})
	k.Update(secret, func() { secret.Data["a"] = []byte("2") })
	k.Eventually(d, testkit.Match("rolled", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[annotation.Digest] != ""
	}))
}

// accountWith returns the client configuration of a ServiceAccount with these permissions in the namespace of the test.
func accountWith(t *testing.T, k *testkit.K, rules []rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: k.Namespace, Name: role}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	k.Apply(account)
	k.Apply(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: k.Namespace, Name: role}},
	})
	token := &authenticationv1.TokenRequest{}
	if err := k.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(k.Config)
	cfg.BearerToken = token.Status.Token
	as, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k.Wait("the permissions", func(ctx context.Context) error { // the API server has a cache of them
		return as.List(ctx, &corev1.SecretList{}, client.InNamespace(k.Namespace))
	})
	return cfg
}
