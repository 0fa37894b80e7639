package database_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Of two replicas one is active, with the shipped permissions; the other one takes over.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	elect := testkit.WithManagerOptions(func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionReleaseOnCancel = true
		o.LeaderElectionID = "database.homeostat.dev"
		o.LeaderElectionNamespace = k.Namespace
	})
	first := start(k, elect)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "database.homeostat.dev"}}
	k.Eventually(lease, testkit.Match("held", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	}))
	start(k, elect)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), members(2))
	first.Stop()
	k.Update(db, func() { db.Spec.Replicas = new(int32(1)) })
	k.Eventually(db, testkit.Ready(), members(1))
}
