package database_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// Every fault at every moment where it can matter, in the life of a database, from the first volume to each way to end. With
// -short some are tried.
func TestEverythingThatCanGoWrong(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.DeletionPolicy{v1.DeletionRetain, v1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			change := func(name string, f func(spec *v1.DatabaseSpec)) chaos.Step {
				return chaos.Step{Name: name, Do: func(k *testkit.K) {
					db := newDatabase("a")
					k.Update(db, func() { f(&db.Spec) })
				}}
			}
			chaos.Sweep(t, database.New(database.Options{}), chaos.Scenario{
				{Name: "create", Do: func(k *testkit.K) {
					db := newDatabase("a")
					db.Spec.Replicas, db.Spec.DeletionPolicy = new(int32(1)), policy
					db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete" // so that it does not matter who was down
					k.Apply(db)
				}},
				change("scale up", func(s *v1.DatabaseSpec) { s.Replicas = new(int32(3)) }),
				change("scale down", func(s *v1.DatabaseSpec) { s.Replicas = new(int32(2)) }),
				change("grow", func(s *v1.DatabaseSpec) { s.Storage = "2Gi" }),
				change("configure", func(s *v1.DatabaseSpec) { s.Configuration = map[string]v1.Setting{"work_mem": "8MB"} }),
				change("back up no more", func(s *v1.DatabaseSpec) { s.BackupEnabled = new(false) }),
				change("back up again", func(s *v1.DatabaseSpec) { s.BackupEnabled = new(true) }),
			}, chaos.All, append(keeps(policy),
				chaos.Leaves("secrets/a-db-credentials"), // other passwords would be of no use
				chaos.Never("two primaries", onePrimary))...)
		})
	}
}

// onePrimary says what is wrong if the Service of the primary leads to anything but member 0.
func onePrimary(objects []client.Object) string {
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok && s.Name == "a-db" {
			if pod := s.Spec.Selector["statefulset.kubernetes.io/pod-name"]; pod != "a-db-0" {
				return fmt.Sprintf("the Service leads to %q", pod)
			}
		}
	}
	return ""
}

// keeps says what may stay when the Database has gone.
func keeps(policy v1.DeletionPolicy) []chaos.Option {
	if policy == v1.DeletionDelete {
		return nil
	}
	return []chaos.Option{chaos.Keeps("persistentvolumeclaims", "secrets")}
}
