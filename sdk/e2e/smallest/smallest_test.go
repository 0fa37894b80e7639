package smallest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/sdk/e2e/smallest"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "../testdata/crd", AddToScheme: site.AddToScheme})
}

func TestOperator(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var calls atomic.Int32
	op := smallest.New(func(context.Context, string) error {
		if calls.Add(1) == 1 {
			return errors.New("the registry is down")
		}
		return nil
	})
	k.Run(op)

	s := &site.Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	k.Apply(s)
	k.Eventually(s, testkit.Reason("Stalled", metav1.ConditionTrue, "TextMissing"))
	k.Update(s, func() { s.Spec.Text = "hello" })

	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	k.Eventually(web, testkit.Exists())
	k.Eventually(s, testkit.Condition("Reconciling", metav1.ConditionTrue))
	k.UpdateStatus(web, func() {
		web.Status = appsv1.DeploymentStatus{
			ObservedGeneration: web.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: "True"},
				{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable"},
			},
		}
	})
	k.Eventually(s, testkit.Ready())

	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	if calls.Load() != 2 {
		t.Errorf("unregister was called %d times, want 2: it failed once and must be called until it succeeds", calls.Load())
	}
	k.Eventually(web, testkit.Gone())
}

// The documentation promises a useful operator in at most 60 lines, without the types.
func TestSize(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("smallest.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines > 60 {
		t.Errorf("smallest.go has %d lines, want at most 60", lines)
	}
}
