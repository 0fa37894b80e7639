package config_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/testkit"
)

// fenced installs the policy of config/access for this test alone, and returns a client with the token of an account that
// may do anything with workloads and Secrets, so that the policy is all that refuses a write. The account has these
// permissions in the returned kube-* namespace, too.
func fenced(t *testing.T, k *testkit.K) (as client.Client, reserved string) {
	t.Helper()
	name := "configrollout-fence-" + k.Namespace
	for _, o := range testkit.Kustomize(t, "access") {
		if o.GetName() != "configrollout-fence" {
			continue
		}
		o.SetName(name)
		if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			if err := unstructured.SetNestedField(o.Object, name, "spec", "policyName"); err != nil {
				t.Fatal(err)
			}
		} else {
			limitToNamespace(t, &o, k.Namespace)
		}
		k.Apply(&o)
	}
	all := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
	}
	reserved = "kube-" + k.Namespace
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: reserved}})
	everything := metav1.ObjectMeta{Namespace: reserved, Name: role}
	k.Apply(&rbacv1.Role{ObjectMeta: everything, Rules: all})
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: everything, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: k.Namespace, Name: role}},
	})
	as, err := client.New(accountWith(t, k, all), client.Options{Scheme: k.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	k.Wait("the policy", func(ctx context.Context) error { // the API server has a cache of policies
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "probe"}}
		if as.Create(ctx, probe, client.DryRunAll) == nil {
			return errors.New("a forbidden write was accepted")
		}
		return nil
	})
	return as, reserved
}

// limitToNamespace limits the policy to the account in one namespace: other tests share the control plane.
func limitToNamespace(t *testing.T, policy *unstructured.Unstructured, namespace string) {
	t.Helper()
	conditions, _, _ := unstructured.NestedSlice(policy.Object, "spec", "matchConditions")
	conditions = append(conditions, map[string]any{
		"name": "this-test", "expression": fmt.Sprintf("request.userInfo.username.contains(':%s:')", namespace),
	})
	if err := unstructured.SetNestedSlice(policy.Object, conditions, "spec", "matchConditions"); err != nil {
		t.Fatal(err)
	}
}

// forbiddenPatches are merge patches of a workload that the operator never sends.
var forbiddenPatches = map[string]string{
	"an image":                    `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`,
	"a command":                   `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"a","command":["sh"]}]}}}}`,
	"an account":                  `{"spec":{"template":{"spec":{"serviceAccountName":"admin"}}}}`,
	"the host's network":          `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`,
	"an annotation of pods":       `{"spec":{"template":{"metadata":{"annotations":{"example.com/inject":"true"}}}}}`,
	"less annotations of pods":    `{"spec":{"template":{"metadata":{"annotations":{"keep":null}}}}}`,
	"a label of pods":             `{"spec":{"template":{"metadata":{"labels":{"more":"1"}}}}}`,
	"replicas":                    `{"spec":{"replicas":0}}`,
	"revisions":                   `{"spec":{"revisionHistoryLimit":3}}`,
	"pods without a ready period": `{"spec":{"minReadySeconds":100}}`,
	"a label":                     `{"metadata":{"labels":{"a":"1"}}}`,
	"a removed label":             `{"metadata":{"labels":{"keep":null}}}`,
	"an annotation":               `{"metadata":{"annotations":{"a":"1"}}}`,
	"a changed annotation":        `{"metadata":{"annotations":{"keep":"2"}}}`,
	"a removed annotation":        `{"metadata":{"annotations":{"keep":null}}}`,
	"a setting of the user":       `{"metadata":{"annotations":{"rollout.homeostat.dev/enabled":"false"}}}`,
	"a finalizer":                 `{"metadata":{"finalizers":["example.com/f"]}}`,
	"an owner":                    `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u"}]}}`,
}

// permittedPatches are what the operator sends.
var permittedPatches = map[string]string{
	"the state": `{"metadata":{"annotations":{"rollout.homeostat.dev/observed-digest":"x",` +
		`"rollout.homeostat.dev/state":"y"}}}`,
	"a rollout": `{"metadata":{"annotations":{"rollout.homeostat.dev/last-rollout":"{}"}},"spec":{"template":{"metadata":` +
		`{"annotations":{"rollout.homeostat.dev/config-digest":"x"}}}}}`,
	"a rollback": `{"spec":{"template":{"metadata":{"annotations":{"rollout.homeostat.dev/config-digest":null}}}}}`,
	"a release": `{"metadata":{"annotations":{"rollout.homeostat.dev/observed-digest":null,` +
		`"rollout.homeostat.dev/state":null}}}`,
}

// The account may write the operator's own annotations of workloads, and nothing else, although its roles permit everything.
func TestFence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	as, reserved := fenced(t, k)
	for kind, o := range workloads() {
		k.Apply(o)
		patch := func(text string) error {
			return as.Patch(t.Context(), o.DeepCopyObject().(client.Object),
				client.RawPatch(types.MergePatchType, []byte(text)))
		}
		for name, text := range forbiddenPatches {
			if err := patch(text); !refusedByFence(err) {
				if strings.Contains(text, "replicas") && kind == "DaemonSet" { // it has none
					continue
				}
				t.Errorf("%s with %s: %v", kind, name, err)
			}
		}
		for _, name := range []string{"the state", "a rollout", "a rollback", "a release"} {
			if err := patch(permittedPatches[name]); err != nil {
				t.Errorf("%s with %s: %v", kind, name, err)
			}
		}
		if err := as.Delete(t.Context(), o); !refusedByFence(err) {
			t.Errorf("the deletion of a %s: %v", kind, err)
		}
		elsewhere := workloads()[kind]
		elsewhere.SetNamespace(reserved)
		k.Apply(elsewhere)
		err := as.Patch(t.Context(), elsewhere, client.RawPatch(types.MergePatchType, []byte(permittedPatches["the state"])))
		if !refusedByFence(err) || !strings.Contains(err.Error(), "kube-*") {
			t.Errorf("a %s in %s: %v", kind, reserved, err)
		}
		created := workloads()[kind]
		created.SetNamespace(k.Namespace)
		created.SetName("created")
		if err := as.Create(t.Context(), created); !refusedByFence(err) {
			t.Errorf("the creation of a %s: %v", kind, err)
		}
	}
	fencedSubresources(t, k, as)
	fencedSecrets(t, k, as)
}

func refusedByFence(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

func fencedSubresources(t *testing.T, k *testkit.K, as client.Client) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "a"}}
	k.Get(d)
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := as.SubResource("scale").Patch(t.Context(), d, scale); !refusedByFence(err) {
		t.Errorf("a scaled Deployment: %v", err)
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":5}}`))
	if err := as.Status().Patch(t.Context(), d, status); !refusedByFence(err) {
		t.Errorf("the status of a Deployment: %v", err)
	}
}

// The account creates the Secret with the key, and writes no other one.
func fencedSecrets(t *testing.T, k *testkit.K, as client.Client) {
	t.Helper()
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}}
	}
	if err := as.Create(t.Context(), secret("token")); !refusedByFence(err) {
		t.Errorf("the creation of a Secret: %v", err)
	}
	if err := as.Create(t.Context(), secret(digest.KeySecret)); err != nil {
		t.Errorf("the creation of the key: %v", err)
	}
	if err := as.Delete(t.Context(), secret(digest.KeySecret)); !refusedByFence(err) {
		t.Errorf("the deletion of the key: %v", err)
	}
}

// workloads returns a workload of each kind.
func workloads() map[string]client.Object {
	meta := metav1.ObjectMeta{
		Name: "a", Labels: map[string]string{"keep": "1"},
		Annotations: map[string]string{"keep": "1", "rollout.homeostat.dev/enabled": "true"},
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"keep": "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.21"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	return map[string]client.Object{
		"Deployment":  &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}},
		"DaemonSet":   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
	}
}
