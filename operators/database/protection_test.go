package database_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// protect installs the admission policies against deletions for the test's namespace; other tests share the cluster.
func protect(t *testing.T, k *testkit.K) {
	t.Helper()
	for _, o := range testkit.Kustomize(t, "config/access") {
		if !strings.HasPrefix(o.GetName(), "database-deletion-") && !strings.HasPrefix(o.GetName(), "database-namespace-") {
			continue
		}
		name := o.GetName() + "-" + k.Namespace // the end of a test deletes its policies
		o.SetName(name)
		if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			here := map[string]any{"kubernetes.io/metadata.name": k.Namespace}
			if err := errors.Join(
				unstructured.SetNestedField(o.Object, name, "spec", "policyName"),
				unstructured.SetNestedMap(o.Object, here, "spec", "matchResources", "namespaceSelector", "matchLabels"),
			); err != nil {
				t.Fatal(err)
			}
		}
		k.Apply(&o)
	}
}

// A namespace is not deleted while it has a Database whose data would be lost with it, under any deletion policy that keeps
// data.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	protect(t, k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	rejected := func(want bool) {
		t.Helper()
		k.Wait("the policy", func(ctx context.Context) error { // the API server needs a moment to see a change
			err := k.Client.Delete(ctx, namespace, client.DryRunAll)
			switch {
			case want && err == nil:
				return errors.New("the deletion is accepted")
			case want && !strings.Contains(err.Error(), "has Database a, whose data would be lost"):
				return err
			case !want:
				return err
			}
			return nil
		})
	}
	for _, c := range []struct {
		policy    v1.DeletionPolicy
		protected bool
		want      bool
	}{
		{v1.DeletionRetain, false, true},
		{v1.DeletionDelete, false, false},
		{v1.DeletionSnapshot, false, true},
		{v1.DeletionDelete, true, true},
	} {
		k.Update(db, func() {
			db.Spec.DeletionPolicy = c.policy
			db.Spec.DeletionProtection = c.protected
		})
		rejected(c.want)
	}
	if err := k.Client.Delete(k.Context(), namespace); !apierrors.IsForbidden(err) {
		t.Errorf("deleting the namespace: %v", err)
	}
	k.Update(db, func() { db.Spec.DeletionProtection = false })
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	rejected(false)
}

// An owner reference that a user adds to a claim does not make the garbage collector delete the data.
func TestForgedOwnerOfClaim(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	protect(t, k)
	db := newDatabase("a")
	db.Spec.DeletionProtection = true
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	snapshots := newDatabase("b")
	snapshots.Spec.DeletionPolicy = v1.DeletionSnapshot
	k.Apply(snapshots)
	k.Eventually(snapshots, testkit.Ready())
	for _, name := range []string{"data-a-db-0", "data-b-db-0"} {
		c := claim(name)
		k.Get(c)
		k.Wait("the policy", func(ctx context.Context) error {
			if err := k.Client.Delete(ctx, c, client.DryRunAll); !apierrors.IsForbidden(err) {
				return errors.New("the deletion is accepted")
			}
			return nil
		})
		k.Update(c, func() {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "0-0"}}
		})
		k.Consistently(c, time.Second, testkit.Match("kept", func(c *corev1.PersistentVolumeClaim) bool {
			return c.DeletionTimestamp == nil
		}))
	}
	for _, db := range []*v1.Database{db, snapshots} { // otherwise the namespace stays
		k.Update(db, func() {
			db.Spec.DeletionPolicy = v1.DeletionDelete
			db.Spec.DeletionProtection = false
		})
	}
}
