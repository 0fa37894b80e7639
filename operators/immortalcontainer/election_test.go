package immortalcontainer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Of two replicas one leads, with the shipped permissions, and records an event; the other takes over.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	elect := testkit.WithManagerOptions(func(o *manager.Options) {
		o.LeaderElection = true
		o.LeaderElectionReleaseOnCancel = true
		o.LeaderElectionID = "immortalcontainer.homeostat.dev"
		o.LeaderElectionNamespace = k.Namespace
	})
	first := start(k, elect)
	k.Eventually(lease(), held())
	start(k, elect)
	ic := withShortBackoff("a")
	pod := ready(k, ic)
	k.Wait("the leader says so", func(ctx context.Context) error {
		var events corev1.EventList
		if err := k.Client.List(ctx, &events, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Lease" && strings.Contains(e.Message, "became leader") {
				return nil
			}
		}
		return errors.New("there is no such event")
	})
	first.Stop()
	k.Delete(pod)
	k.Eventually(ic, testkit.Ready(), starts(2))
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "immortalcontainer.homeostat.dev"}}
}

func held() testkit.Check {
	return testkit.Match("held", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != ""
	})
}
