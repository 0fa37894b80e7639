package database_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A protected Database and its claims cannot be deleted: by name, as a collection, or with the namespace.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	protect(t, k)
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
	k.Eventually(data, testkit.Match("not protected", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Labels[desired.ProtectedLabel] == ""
	}))
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
	last := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: desired.LastSnapshot(db).Name}}
	release := k.Kubelet.DelayReadiness("app=a-db")
	k.Delete(db)
	k.Eventually(service("a-db"), primaryReachable(false))
	k.Eventually(db, deleting("accept nothing but the last dump"))
	k.Eventually(pod("a-db-0"), testkit.Match("closed", func(pod *corev1.Pod) bool { return desired.IsClosed(&pod.Spec) }))
	k.Consistently(last, 200*time.Millisecond, testkit.Gone()) // a client may still write to the former server
	k.Eventually(pod("a-db-1"), testkit.Gone())
	k.Eventually(claim("data-a-db-1"), testkit.Exists())
	release()
	k.Eventually(last, testkit.Exists())
	if last.Spec.Verify != "restore" {
		t.Errorf("the last copy is verified by %q", last.Spec.Verify)
	}
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

// plantLast creates the object as a user who forges the marks of the operator, and who may write its status.
func plantLast(k *testkit.K, db *v1.Database, planted *v1.DBSnapshot) {
	planted.Labels = map[string]string{sdk.ManagedByLabel: "database"}
	planted.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: "Database", Name: db.Name, UID: db.UID, Controller: new(true),
	}}
	k.Apply(planted)
	k.UpdateStatus(planted, func() { planted.Status.Phase = v1.SnapshotSucceeded })
}

// replaceLast deletes the planted object, and completes the one that the operator creates in its place.
func replaceLast(k *testkit.K, db *v1.Database, planted *v1.DBSnapshot) {
	k.Delete(planted)
	last := desired.LastSnapshot(db)
	k.Eventually(last, testkit.Match("another one", func(s *v1.DBSnapshot) bool { return s.UID != planted.UID }))
	k.UpdateStatus(last, func() { last.Status.Phase = v1.SnapshotSucceeded })
	k.Eventually(db, testkit.Gone())
}

// A DBSnapshot of the name of the last copy that copies something else does not let the data go.
func TestForeignLastSnapshot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionSnapshot
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	planted := desired.LastSnapshot(db)
	planted.Spec.Source = v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: "other"}}
	release := k.Kubelet.DelayReadiness("app=a-db")
	k.Delete(db)
	k.Eventually(db, deleting("accept nothing but the last dump"))
	plantLast(k, db, planted)
	release()
	k.Eventually(db, deleting("is not the one that is made for the last copy"))
	k.Consistently(claim("data-a-db-0"), 300*time.Millisecond, testkit.Exists())
	replaceLast(k, db, planted)
}

// A copy from before the deletion lacks later writes, and does not let the data go.
func TestFormerLastSnapshot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionSnapshot
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	op.Stop()
	planted := desired.LastSnapshot(db)
	plantLast(k, db, planted)
	k.Wait("the next second, because times have no fractions", func(context.Context) error {
		if !time.Now().After(planted.CreationTimestamp.Add(time.Second)) {
			return errors.New("it is the same second")
		}
		return nil
	})
	k.Delete(db)
	start(k)
	k.Eventually(db, deleting("is not the one that is made for the last copy"))
	k.Eventually(claim("data-a-db-0"), testkit.Exists())
	replaceLast(k, db, planted)
}

// Foreground deletion ends the server. It starts again, closed, for the last copy, and the data stay until there is one.
func TestForegroundDeletionKeepsTheData(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionSnapshot
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	data := claim("data-a-db-0")
	k.Get(data)
	if err := k.Client.Delete(k.Context(), db, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	last := desired.LastSnapshot(db)
	k.Eventually(last, testkit.Exists())
	server := pod("a-db-0")
	k.Get(server)
	if !desired.IsClosed(&server.Spec) {
		t.Error("the copy is made while clients write")
	}
	k.Eventually(db, deleting("the last one, is being made"))
	was := data.UID
	k.Consistently(data, time.Second, testkit.Match("the same data", func(c *corev1.PersistentVolumeClaim) bool {
		return c.UID == was && c.DeletionTimestamp == nil && len(c.OwnerReferences) == 0
	}))
	k.UpdateStatus(last, func() { last.Status.Phase = v1.SnapshotSucceeded })
	k.Eventually(db, testkit.Gone())
	k.Eventually(data, testkit.Gone())
}

// With orphan propagation everything stays with the policy Delete, too, also if the operator sees the deletion after the
// garbage collector.
func TestOrphanDeletionKeepsTheData(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	op.Stop()
	data := claim("data-a-db-0")
	k.Get(data)
	was := data.UID
	if err := k.Client.Delete(k.Context(), db, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	k.Eventually(db, testkit.Match("the dependents are orphans", func(db *v1.Database) bool {
		return !slices.Contains(db.Finalizers, metav1.FinalizerOrphanDependents)
	}))
	start(k)
	k.Eventually(db, testkit.Gone())
	k.Consistently(data, time.Second, testkit.Match("the same data", func(c *corev1.PersistentVolumeClaim) bool {
		return c.UID == was && c.DeletionTimestamp == nil && len(c.OwnerReferences) == 0
	}))
	k.Eventually(pod("a-db-0"), testkit.Ready())
	k.Get(secret("a-db-credentials"))
}
