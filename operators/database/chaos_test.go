package database_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// Every fault at every moment where it can matter in the life of a database, from its first volume to its end, with which
// the data stay. With -short some are tried.
func TestEverythingThatCanGoWrong(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, database.New(database.Options{Now: monday}), chaos.Scenario{
		created(v1.DeletionRetain),
		change("scale up", func(s *v1.DatabaseSpec) { s.Replicas = new(int32(3)) }),
		change("scale down", func(s *v1.DatabaseSpec) { s.Replicas = new(int32(2)) }),
		change("grow", func(s *v1.DatabaseSpec) { s.Storage = "2Gi" }),
		change("configure", func(s *v1.DatabaseSpec) {
			s.Configuration, s.BackupEnabled = map[string]v1.Setting{"work_mem": "8MB"}, new(false)
		}),
		change("back up again", func(s *v1.DatabaseSpec) { s.BackupEnabled = new(true) }),
	}, chaos.All, chaos.AllowResidue("persistentvolumeclaims", "secrets"), sameCredentials, onePrimary)
}

// The same for one whose end leaves nothing.
func TestEverythingThatCanGoWrongBeforeTheEnd(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, database.New(database.Options{Now: monday}), chaos.Scenario{
		created(v1.DeletionDelete),
		change("grow", func(s *v1.DatabaseSpec) { s.Storage, s.Replicas = "2Gi", new(int32(2)) }),
	}, chaos.All, sameCredentials, onePrimary)
}

// The same for one whose data go when there is a last copy of them, and not before.
func TestEverythingThatCanGoWrongBeforeTheLastCopy(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, database.New(database.Options{Now: monday}), chaos.Scenario{created(v1.DeletionSnapshot)},
		chaos.All, chaos.Before(copies), chaos.AllowResidue("dbsnapshots", "persistentvolumeclaims", "secrets"), sameCredentials,
		onePrimary, chaos.Invariant("data that are gone before there is a copy", copiedBefore))
}

// copies has each DBSnapshot of the test's namespace succeed, as the operator of those would, until the test ends.
func copies(k *testkit.K) {
	w, err := k.Client.Watch(k.Context(), &v1.DBSnapshotList{}, client.InNamespace(k.Namespace))
	if err != nil {
		panic(err)
	}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			o, ok := e.Object.(*v1.DBSnapshot)
			if !ok || e.Type == watch.Deleted || o.Status.Phase == v1.SnapshotSucceeded {
				continue
			}
			<-time.After(200 * time.Millisecond) // in which whoever does not wait for it lets the data go
			o.Status.Phase = v1.SnapshotSucceeded
			_ = k.Client.Status().Update(k.Context(), o) // what comes between is followed by another event
		}
	}()
}

// copiedBefore says what is wrong if a Database is on its way out or gone, its claim goes too, and no copy has succeeded.
func copiedBefore(objects []client.Object) string {
	var going, copied bool
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.Database:
			if o.DeletionTimestamp == nil {
				return "" // somebody else deletes the claim
			}
		case *corev1.PersistentVolumeClaim:
			going = going || o.Name == "data-a-db-0" && o.DeletionTimestamp != nil && o.Status.Phase == corev1.ClaimBound
		case *v1.DBSnapshot:
			copied = copied || o.Status.Phase == v1.SnapshotSucceeded
		}
	}
	if going && !copied {
		return "claim data-a-db-0 is being deleted, and there is no copy"
	}
	return ""
}

// monday is a clock that stands, so that what is due next depends on no time of the day.
func monday() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

func created(policy v1.DeletionPolicy) chaos.Step {
	return chaos.Step{Name: "create", Do: func(k *testkit.K) {
		db := newDatabase("a")
		db.Spec.Replicas, db.Spec.DeletionPolicy = new(int32(1)), policy
		db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete" // so that it does not matter who was down
		k.Apply(db)
	}}
}

func change(name string, f func(spec *v1.DatabaseSpec)) chaos.Step {
	return chaos.Step{Name: name, Do: func(k *testkit.K) {
		db := newDatabase("a")
		k.Update(db, func() { f(&db.Spec) })
	}}
}

// sameCredentials keeps others from deleting the passwords: without them the data are of no use, and new ones are not made.
var sameCredentials = chaos.Irreplaceable("secrets/a-db-credentials")

// onePrimary says what is wrong if the Service of the primary leads to anything but member 0.
var onePrimary = chaos.Invariant("two primaries", func(objects []client.Object) string {
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok && s.Name == "a-db" {
			if pod := s.Spec.Selector["statefulset.kubernetes.io/pod-name"]; pod != "a-db-0" {
				return fmt.Sprintf("the Service leads to %q", pod)
			}
		}
	}
	return ""
})
