package myapp_test

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

	"github.com/homeostat-dev/homeostat/sdk"
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

// The operator's token alone writes no object that is not the operator's. Every other test shows that the policy admits what
// the operator does.
func TestFence(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
	k.Apply(owner)
	controlled, inside, app := foreignDeployment("controlled"), service("theirs"), tenantApp(k, "a")
	controlled.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true),
	}}
	inside.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	k.Apply(controlled)
	k.Apply(inside)
	k.Apply(app)
	thief := newThief(t, k)
	labeled := foreignDeployment("labeled")
	labeled.ObjectMeta = in(k, "labeled")
	labeled.Labels = map[string]string{sdk.ManagedByLabel: "myapp", sdk.InstanceLabel: "a"}
	pending := foreignClaim("theirs", corev1.ReadWriteOnce)
	pending.Namespace = k.Namespace
	waitRefused(k, thief, labeled, "may write only objects that a MyApp controls")
	change := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"x": "y"}}}`))
	for name, err := range map[string]error{
		"create a Deployment":            thief.Create(k.Context(), labeled),
		"create a claim":                 thief.Create(k.Context(), pending),
		"change a controlled Deployment": thief.Patch(k.Context(), controlled, change),
		"change a Service":               thief.Patch(k.Context(), inside, change),
		"delete a Service":               thief.Delete(k.Context(), inside),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may write only objects that a MyApp controls") {
			t.Errorf("the operator's account may %s: %v", name, err)
		}
	}
	if err := thief.Create(k.Context(), planted(k, app, "child")); err != nil {
		t.Errorf("a child of a MyApp is refused: %v", err)
	}
}

// The namespaces of Kubernetes are closed, even for an object with the marks of a child.
func TestFenceOfKubeNamespaces(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-" + k.Namespace}}
	k.Apply(namespace)
	defer k.Delete(namespace)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "all"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create"}},
	}}
	k.Apply(role)
	thief := newThief(t, k)
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "all"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: k.Namespace, Name: "myapp-operator"}},
	})
	app := tenantApp(k, "a")
	app.UID = "any"
	child := planted(k, app, "child")
	child.Namespace = namespace.Name
	waitRefused(k, thief, child, "may write nothing in namespaces that begin with kube-")
}
