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

// TestFaults injects every fault at every relevant point in the life of a database with the deletion policy Retain. With
// -short it runs a sample, in a life with the same changes in fewer steps.
func TestFaults(t *testing.T) {
	t.Parallel()
	scaleUp := func(s *v1.DatabaseSpec) { s.Replicas = new(int32(3)) }
	scaleDown := func(s *v1.DatabaseSpec) { s.Replicas = new(int32(2)) }
	grow := func(s *v1.DatabaseSpec) { s.Storage = "2Gi" }
	configure := func(s *v1.DatabaseSpec) {
		s.Configuration = map[string]v1.Setting{"work_mem": "8MB"}
		s.BackupEnabled = new(false)
	}
	life := chaos.Scenario{
		created(v1.DeletionRetain), change("scale up", scaleUp), change("scale down", scaleDown), change("grow", grow),
		change("configure", configure), change("back up again", func(s *v1.DatabaseSpec) { s.BackupEnabled = new(true) }),
	}
	if testing.Short() {
		life = chaos.Scenario{
			created(v1.DeletionRetain), change("scale up and grow", scaleUp, grow),
			change("scale down and configure", scaleDown, configure),
		}
	}
	chaos.Sweep(t, database.New(database.Options{Now: fixedClock}), life, chaos.All,
		chaos.AllowResidue("persistentvolumeclaims", "secrets"), keepCredentials, onePrimary)
}

// The same with the deletion policy Delete.
func TestFaultsWithDeletionPolicyDelete(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, database.New(database.Options{Now: fixedClock}), chaos.Scenario{
		created(v1.DeletionDelete),
		change("grow", func(s *v1.DatabaseSpec) {
			s.Storage = "2Gi"
			s.Replicas = new(int32(2))
		}),
	}, chaos.All, keepCredentials, onePrimary)
}

// The same with the deletion policy Snapshot: the data are deleted only after a last copy.
func TestFaultsWithDeletionPolicySnapshot(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, database.New(database.Options{Now: fixedClock}), chaos.Scenario{created(v1.DeletionSnapshot)},
		chaos.All, chaos.BeforeRun(completeSnapshots),
		chaos.AllowResidue("dbsnapshots", "persistentvolumeclaims", "secrets"), keepCredentials,
		onePrimary, chaos.Invariant("data that are gone before there is a copy", copiedBefore))
}

// completeSnapshots sets each DBSnapshot of the namespace to Succeeded, as its operator would, until the test ends.
func completeSnapshots(k *testkit.K) {
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
			<-time.After(200 * time.Millisecond) // an operator that does not wait deletes the data in this time
			o.Status.Phase = v1.SnapshotSucceeded
			_ = k.Client.Status().Update(k.Context(), o) // a conflict is followed by another event
		}
	}()
}

// copiedBefore returns a violation if a Database is terminating or gone and its claim terminates before a copy has
// succeeded.
func copiedBefore(objects []client.Object) string {
	var going, copied bool
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.Database:
			if o.DeletionTimestamp == nil {
				return "" // the test deletes the claim
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

// fixedClock is a clock that stands still, so that schedules do not depend on the time of day.
func fixedClock() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

func created(policy v1.DeletionPolicy) chaos.Step {
	return chaos.Step{Name: "create", Do: func(k *testkit.K) {
		db := newDatabase("a")
		db.Spec.Replicas = new(int32(1))
		db.Spec.DeletionPolicy = policy
		db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete" // so that a restart of the operator does not matter
		k.Apply(db)
	}}
}

func change(name string, edits ...func(spec *v1.DatabaseSpec)) chaos.Step {
	return chaos.Step{Name: name, Do: func(k *testkit.K) {
		db := newDatabase("a")
		k.Update(db, func() {
			for _, edit := range edits {
				edit(&db.Spec)
			}
		})
	}}
}

// keepCredentials excludes the Secret from deletions. Without the passwords the data are unusable, and new ones are not
// created.
var keepCredentials = chaos.Irreplaceable("secrets/a-db-credentials")

// onePrimary returns a violation if the primary's Service selects any pod but member 0.
var onePrimary = chaos.Invariant("two primaries", func(objects []client.Object) string {
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok && s.Name == "a-db" {
			if pod := s.Spec.Selector["statefulset.kubernetes.io/pod-name"]; pod != "a-db-0" {
				return fmt.Sprintf("the Service selects %q", pod)
			}
		}
	}
	return ""
})
