package sdk

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// testObject is an object of an operator's kind.
type testObject struct {
	corev1.ConfigMap
	status conditions.Status
}

func (o *testObject) CommonStatus() *conditions.Status { return &o.status }

func TestFinalizerNameIsChecked(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"":                 "",
		"shop.example/web": "",
		"finalizer.web":    "", // allowed for custom resources
		"shop.example/":    `field FinalizerName "shop.example/": name part must be non-empty`,
	} {
		op := &Operator[*testObject]{
			Name: "us", FinalizerName: name, AddToScheme: scheme.AddToScheme,
			Reconcile: func(context.Context, *Pass[*testObject]) error { return nil },
		}
		if err := op.validate(); (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", name, err, says)
		}
	}
}

// TestObservesIsChecked checks that a kind is either owned or observed: it is watched once.
func TestObservesIsChecked(t *testing.T) {
	t.Parallel()
	op := &Operator[*testObject]{
		Name: "us", Owns: []client.Object{&appsv1.Deployment{}}, Observes: []client.Object{&corev1.Pod{}, &appsv1.Deployment{}},
	}
	types := runtime.NewScheme()
	types.AddKnownTypeWithName(schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Test"}, &testObject{})
	if err := scheme.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	want := `operator "us" is not usable: field Observes lists Deployment.apps, which is listed already`
	if _, err := op.definition().Kinds(types, nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	op.Observes = op.Observes[:1]
	k, err := op.definition().Kinds(types, nil)
	if err != nil || len(k.Owned) != 1 || len(k.Observed) != 1 || len(k.Watched) != 2 {
		t.Errorf("%+v, %v", k, err)
	}
}
