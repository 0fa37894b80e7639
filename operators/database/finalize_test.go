package database_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A protected Database and its claims cannot be deleted: by name, as a collection, or with the namespace.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	for _, o := range testkit.Kustomize(t, "config/access") {
		if o.GetName() != "database-deletion-protection" {
			continue
		}
		switch o.GetKind() {
		case "ValidatingAdmissionPolicyBinding": // other tests share the cluster
			here := map[string]any{"kubernetes.io/metadata.name": k.Namespace}
			path := []string{"spec", "matchResources", "namespaceSelector", "matchLabels"}
			if err := unstructured.SetNestedMap(o.Object, here, path...); err != nil {
				t.Fatal(err)
			}
			k.Apply(&o)
		case "ValidatingAdmissionPolicy":
			k.Apply(&o)
		}
	}
	db := newDatabase("a")
	db.Spec.DeletionProtection = true
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Wait("the policy", func(ctx context.Context) error { // the API server needs a moment to apply the policy
		if err := k.Client.Delete(ctx, db, client.DryRunAll); err == nil {
			return errors.New("the deletion is accepted")
		}
		return nil
	})
	data := claim("data-a-db-0")
	k.Get(data)
	for name, err := range map[string]error{
		"the Database": k.Client.Delete(k.Context(), db),
		"all of them":  k.Client.DeleteAllOf(k.Context(), &v1.Database{}, client.InNamespace(k.Namespace)),
		"a claim":      k.Client.Delete(k.Context(), data),
	} {
		if err == nil || !strings.Contains(err.Error(), "set spec.deletionProtection of the Database to false") {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	k.Eventually(db, testkit.Ready())
	k.Update(db, func() { db.Spec.DeletionProtection = false })
	k.Eventually(db, testkit.Match("no finalizer", func(db *v1.Database) bool { return len(db.Finalizers) == 0 }))
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	expectNothingLeft(k)
}

// Without the admission policy a protected Database becomes terminating and continues to work.
func TestDeletionProtectionWithoutPolicy(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.DeletionProtection = true
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Delete(db)
	k.Eventually(db, deleting("spec.deletionProtection is true"))
	k.Eventually(pod("a-db-0"), testkit.Ready())
	k.Update(db, func() { db.Spec.DeletionProtection = false })
	k.Eventually(db, testkit.Gone())
	k.Eventually(claim("data-a-db-0"), testkit.Exists())
}

// With the policy Snapshot the data are deleted after a last copy.
func TestLastSnapshot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionSnapshot
	db.Spec.BackupEnabled = new(false)
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Delete(db)
	last := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: desired.LastSnapshot(db).Name}}
	k.Eventually(last, testkit.Exists())
	if ref := last.Spec.Source.DatabaseRef; ref == nil || ref.Name != "a" {
		t.Errorf("the last copy is one of %+v", last.Spec.Source)
	}
	k.UpdateStatus(last, func() { last.Status.Phase = v1.SnapshotFailed })
	k.Eventually(db, deleting(last.Name+" failed, so the data are still there"))
	k.Eventually(claim("data-a-db-0"), testkit.Exists())
	k.Eventually(pod("a-db-0"), testkit.Ready())

	k.Delete(last)
	again := &v1.DBSnapshot{ObjectMeta: last.ObjectMeta}
	k.Eventually(again, testkit.Match("another one", func(s *v1.DBSnapshot) bool { return s.UID != last.UID }))
	k.UpdateStatus(again, func() { again.Status.Phase = v1.SnapshotSucceeded })
	k.Eventually(db, testkit.Gone())
	k.Eventually(claim("data-a-db-0"), testkit.Gone())
	k.Eventually(claim("data-a-db-1"), testkit.Gone())
	k.Eventually(set("a-db"), testkit.Gone())
	k.Eventually(claim("a-db-backup"), testkit.Exists())
	k.Eventually(again, testkit.Exists())
}

// A hibernated database is started for the last copy.
func TestLastSnapshotOfHibernatedDatabase(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionSnapshot
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Update(db, func() { db.Spec.Hibernate = true })
	k.Eventually(pod("a-db-0"), testkit.Gone())
	k.Eventually(db, state(v1.Hibernated))
	k.Delete(db)
	k.Eventually(pod("a-db-0"), testkit.Ready())
	last := desired.LastSnapshot(db)
	k.Eventually(last, testkit.Exists())
	k.UpdateStatus(last, func() { last.Status.Phase = v1.SnapshotSucceeded })
	k.Eventually(db, testkit.Gone())
	k.Eventually(claim("data-a-db-0"), testkit.Gone())
	k.Eventually(set("a-db"), testkit.Gone())
	k.Eventually(last, testkit.Exists())
}

func deleting(why string) testkit.Check {
	return testkit.Match("Deleting says "+why, func(db *v1.Database) bool {
		c := conditions.Get(db, conditions.Deleting)
		return c != nil && strings.Contains(c.Message, why)
	})
}
