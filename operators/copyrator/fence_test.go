package copyrator_test

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

	"github.com/homeostat-dev/homeostat/testkit"
)

// marks are the metadata of a copy that config/access/fence.yaml looks at.
func marks(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "copyrator"},
		Annotations: map[string]string{"copyrator.flant.com/source": "a/b"},
	}
}

// The operator's token writes copies, and the policy refuses everything else that its roles permit.
func TestFence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	as, err := client.New(k.ServiceAccount("copyrator-operator"), client.Options{Scheme: k.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	reserved := reservedNamespace(k)
	k.Wait("the policy", func(ctx context.Context) error { // the API server has a cache of policies
		if as.Create(ctx, configMapRef(k.Namespace, "probe"), client.DryRunAll) == nil {
			return errors.New("a forbidden write was accepted")
		}
		return nil
	})
	refused := func(why string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "copyrator-fence") {
			t.Errorf("%s: %v, want a refusal by the policy", why, err)
		}
	}
	permitted := func(why string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}

	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "foreign"}}
	k.Apply(foreign)
	refused("a ConfigMap without marks", as.Create(t.Context(), configMapRef(k.Namespace, "new")))
	refused("foreign data", as.Patch(t.Context(), foreign, merge(`{"data":{"a":"b"}}`)))
	refused("the deletion of a foreign object", as.Delete(t.Context(), foreign))
	half := &corev1.ConfigMap{ObjectMeta: marks(k.Namespace, "half")}
	half.Annotations = nil
	refused("a copy without a source", as.Create(t.Context(), half))
	owned := &corev1.ConfigMap{ObjectMeta: marks(k.Namespace, "owned")}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "u"}}
	refused("a copy with another owner", as.Create(t.Context(), owned))
	held := &corev1.ConfigMap{ObjectMeta: marks(k.Namespace, "held")}
	held.Finalizers = []string{"example.com/held"}
	refused("a copy with a finalizer", as.Create(t.Context(), held))
	for _, forbidden := range []corev1.SecretType{"helm.sh/release.v1", "bootstrap.kubernetes.io/token", "example.com/any"} {
		refused(string(forbidden), as.Create(t.Context(), &corev1.Secret{ObjectMeta: marks(k.Namespace, "s"), Type: forbidden}))
	}
	refused("a copy in "+reserved, as.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: marks(reserved, "c")}))

	old := &corev1.ConfigMap{ObjectMeta: marks(reserved, "old")} // of a former version
	k.Apply(old)
	refused("a changed copy in "+reserved, as.Patch(t.Context(), old, merge(`{"data":{"a":"b"}}`)))
	permitted("the deletion of a copy in "+reserved, as.Delete(t.Context(), old))

	authority := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "copyrator-webhook-ca"}}
	refused("the creation of its Secret", as.Create(t.Context(), authority.DeepCopy()))
	k.Apply(authority)
	elsewhere := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: reserved, Name: authority.Name}}
	k.Apply(elsewhere)
	permitted("its certificate", as.Patch(t.Context(), authority, merge(`{"data":{"ca.key":"YQ=="}}`)))
	refused("a Secret of that name elsewhere", as.Patch(t.Context(), elsewhere, merge(`{"data":{"ca.key":"YQ=="}}`)))
	refused("the deletion of its Secret", as.Delete(t.Context(), authority))

	copied := &corev1.Secret{ObjectMeta: marks(k.Namespace, "copy")}
	permitted("a copy", as.Create(t.Context(), copied))
	permitted("an overwritten object", as.Patch(t.Context(), foreign, merge(`{"metadata":{"labels":`+
		`{"app.kubernetes.io/managed-by":"copyrator"},"annotations":{"copyrator.flant.com/source":"a/b"}},"data":{"a":"b"}}`)))
	permitted("an orphaned object", as.Patch(t.Context(), foreign, merge(`{"metadata":{"labels":null,"annotations":null}}`)))
	permitted("the deletion of a copy", as.Delete(t.Context(), copied))
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// reservedNamespace returns a kube-* namespace in which the operator's roles permit the same as in the test's namespace.
func reservedNamespace(k *testkit.K) string {
	meta := metav1.ObjectMeta{Namespace: "kube-" + k.Namespace, Name: "copyrator-operator"}
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}})
	k.Apply(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"*"}},
	}})
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: k.Namespace, Name: meta.Name}
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(), Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	})
	return meta.Namespace
}
