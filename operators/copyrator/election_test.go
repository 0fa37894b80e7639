package copyrator_test

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
	c := newCluster(t)
	c.op.Stop()
	elect := testkit.WithManagerOptions(func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionReleaseOnCancel = true
		o.LeaderElectionID = "copyrator.homeostat.dev"
		o.LeaderElectionNamespace = c.Namespace
	})
	first := c.start(elect)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "copyrator.homeostat.dev"}}
	c.Eventually(lease, testkit.Match("held", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	}))
	c.start(elect)
	target := c.namespace("target")
	source := configMap(c.Namespace, "x", "one")
	c.Apply(source)
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(rule, testkit.Ready(), synced(1))
	first.Stop()
	c.Update(source, func() { source.Data["key"] = "two" })
	c.Eventually(configMapRef(target, "x"), hasValue("two"))
}
