package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "crd.yaml", AddToScheme: addToScheme, Workloads: true})
}

func TestGadget(t *testing.T) {
	k := testkit.New(t)
	k.Start(func(mgr manager.Manager) error {
		return operator.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace))
	})
	gadget := &Gadget{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       GadgetSpec{Image: "nginx:latest", Replicas: 2},
	}
	k.Apply(gadget)
	k.Eventually(gadget, testkit.Ready())
	if gadget.Status.ReadyReplicas != 2 {
		t.Errorf("the Gadget is Ready with %d ready replicas, want 2", gadget.Status.ReadyReplicas)
	}
	child := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	k.Get(child)
	k.Delete(gadget)
	k.Eventually(gadget, testkit.Gone())
	k.Eventually(child, testkit.Gone())
}
