package database_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The operator's token writes the operator's objects, and the policy refuses everything else that its roles permit.
func TestFence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	as, err := client.New(k.ServiceAccount("database-operator"), client.Options{Scheme: k.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	permitInReservedNamespace(k)
	k.Wait("the policy", func(ctx context.Context) error { // the API server has a cache of policies
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "probe"}}
		if as.Create(ctx, probe, client.DryRunAll) == nil {
			return errors.New("a forbidden write was accepted")
		}
		return nil
	})
	ours := map[string]string{sdk.ManagedByLabel: "database"}
	marked := func(o client.Object) client.Object { o.SetLabels(ours); return o }
	patch := func(o client.Object, text string) error {
		return as.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: ours},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "postgres:16"}}},
	}
	foreignPod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: *pod.Spec.DeepCopy()}
	foreign := secret("theirs-db-credentials")
	for _, o := range []client.Object{pod, foreignPod, foreign} {
		k.Apply(o)
	}
	in := func(o client.Object) client.Object { o.SetNamespace(k.Namespace); return o }
	reserved := marked(secret("a-db-credentials"))
	reserved.SetNamespace("kube-" + k.Namespace)

	for why, err := range map[string]error{
		"a Secret without the label":      as.Create(t.Context(), in(secret("a-db-credentials"))),
		"a Secret with another name":      as.Create(t.Context(), in(marked(secret("token")))),
		"the data of a foreign Secret":    patch(in(foreign.DeepCopy()), `{"stringData":{"a":"b"}}`),
		"the deletion of a foreign claim": as.Delete(t.Context(), in(foreign.DeepCopy())),
		"the label of a foreign pod":      patch(in(foreignPod.DeepCopy()), `{"metadata":{"labels":{"a":"b"}}}`),
		"the image of our pod": as.Patch(t.Context(), in(pod.DeepCopy()), client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"evil"}]`))),
		"an object in a kube-* namespace": as.Create(t.Context(), reserved),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "database-fence") {
			t.Errorf("%s: %v, want a refusal by the policy", why, err)
		}
	}
	if err := as.Create(t.Context(), in(marked(secret("a-db-credentials")))); err != nil {
		t.Errorf("the credentials of a Database: %v", err)
	}
	if err := patch(in(pod.DeepCopy()), `{"metadata":{"labels":{"role":"replica"}}}`); err != nil {
		t.Errorf("the label of our pod: %v", err)
	}
}

// permitInReservedNamespace creates a kube-* namespace in which the operator's roles permit to write Secrets.
func permitInReservedNamespace(k *testkit.K) {
	meta := metav1.ObjectMeta{Namespace: "kube-" + k.Namespace, Name: "database-operator"}
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}})
	k.Apply(&rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
	}})
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: k.Namespace, Name: meta.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	})
}
