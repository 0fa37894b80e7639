package configrollout_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Of two replicas one leads, with the shipped permissions; the other takes over.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	elect := testkit.WithManagerOptions(func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionReleaseOnCancel = true
		o.LeaderElectionID = "configrollout.homeostat.dev"
		o.LeaderElectionNamespace = k.Namespace
	})
	first := k.Run(newOperator(t), elect)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "configrollout.homeostat.dev"}}
	k.Eventually(lease, testkit.Match("held", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	}))
	second := k.Run(newOperator(t), elect)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	if w := writes(second); len(w) > 0 {
		t.Errorf("the replica that does not lead writes %v", w)
	}
	first.Stop()
	change(k, "conf", "a", "2")
	k.Eventually(d, rolledFrom(""), result("Completed"))
}
