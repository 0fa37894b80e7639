package immortalcontainer_test

import (
	"context"
	"errors"
	"fmt"
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

// newThief returns a client with the token of the operator's account.
func newThief(t *testing.T, k *testkit.K) client.Client {
	t.Helper()
	thief, err := client.New(k.ServiceAccount(""), client.Options{Scheme: k.Client.Scheme(), Mapper: k.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return thief
}

// waitRefused waits until the creation is refused with this message: a policy takes effect some time after its creation.
func waitRefused(k *testkit.K, thief client.Client, o client.Object, message string) {
	k.Wait("the fence takes effect", func(ctx context.Context) error {
		copied, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		err := thief.Create(ctx, copied, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), message) {
			return errors.Join(errors.New("it does not"), err)
		}
		return nil
	})
}

const onlyOurs = "may write only pods that an ImmortalContainer controls"

func mergePatch(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }

// The operator's token alone writes no pod that is not the operator's. Every other test shows that the policy admits what
// the operator does.
func TestFence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	ic := tenantContainer(k, "a")
	k.Apply(ic)
	theirs, ours := forgedPod(k, ic, "theirs"), forgedPod(k, ic, "ours")
	theirs.OwnerReferences = nil
	k.Apply(theirs)
	k.Apply(ours)
	thief := newThief(t, k)
	created := forgedPod(k, ic, "created")
	created.OwnerReferences = nil
	waitRefused(k, thief, created, onlyOurs)
	for name, err := range map[string]error{
		"create a pod": thief.Create(k.Context(), created),
		"change the image of a pod": thief.Patch(k.Context(), theirs, client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"spec": {"containers": [{"name": "evil", "image": "other:1"}]}}`))),
		"take over a pod": thief.Patch(k.Context(), theirs, mergePatch(`{"metadata": {"ownerReferences": [{"controller": true,
			"apiVersion": "immortalcontainer.flugel.it/v1alpha1", "kind": "ImmortalContainer", "name": "a", "uid": "any"}]}}`)),
		"delete a pod": thief.Delete(k.Context(), theirs),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), onlyOurs) {
			t.Errorf("the operator's account may %s: %v", name, err)
		}
	}
	err := thief.Patch(k.Context(), ours, mergePatch(`{"spec": {"activeDeadlineSeconds": 1}}`))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may change images, labels, annotations and finalizers") {
		t.Errorf("the operator's account may set a deadline: %v", err)
	}
	if err := thief.Delete(k.Context(), ours); err != nil {
		t.Errorf("the deletion of a child is refused: %v", err)
	}
}

// The namespaces of Kubernetes are closed, even for a pod with the marks of a child.
func TestFenceOfKubeNamespaces(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-" + k.Namespace}}
	k.Apply(namespace)
	defer k.Delete(namespace)
	k.Apply(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "all"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
	}})
	thief := newThief(t, k)
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "all"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: k.Namespace, Name: "immortalcontainers-operator"}},
	})
	ic := tenantContainer(k, "a")
	ic.UID = "any"
	child := forgedPod(k, ic, "child")
	child.Namespace = namespace.Name
	waitRefused(k, thief, child, "may write nothing in namespaces that begin with kube-")
}
