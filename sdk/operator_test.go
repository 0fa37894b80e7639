package sdk

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

func TestOwnsIsChecked(t *testing.T) {
	t.Parallel()
	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for name, c := range map[string]struct {
		reason string
		owns   []client.Object
		says   string // "" if it is valid
	}{
		"none":      {"an operator may have no children", nil, ""},
		"different": {"the common case", []client.Object{&corev1.Secret{}, &appsv1.Deployment{}}, ""},
		"metadata":  {"large objects", []client.Object{MetadataOnly(&corev1.Secret{}), &appsv1.Deployment{}}, ""},
		"metadata twice": {
			"one object would be counted twice",
			[]client.Object{MetadataOnly(&corev1.Secret{}), &corev1.Secret{}},
			"field Owns lists Secret, which is listed already",
		},
		"twice": {
			"it would never be ready, waiting for a second informer",
			[]client.Object{loose, &corev1.Secret{}},
			"field Owns lists Secret, which is listed already",
		},
		"other version": {
			"one object would be counted twice",
			[]client.Object{&appsv1.Deployment{}, &appsv1beta1.Deployment{}},
			"field Owns lists Deployment.apps, which is listed already",
		},
		"own kind": {
			"it is watched already",
			[]client.Object{&corev1.ConfigMap{}},
			"field Owns lists ConfigMap, which is the operator's own kind",
		},
		"nothing at all": {"a mistake", []client.Object{&corev1.Secret{}, nil}, "item 1 of field Owns is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &kinds{
				scheme: scheme.Scheme, primary: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
				partial: map[schema.GroupVersionKind]bool{},
			}
			kinds, err := k.list("Owns", c.owns)
			switch {
			case err == nil && (c.says != "" || len(kinds) != len(c.owns)):
				t.Errorf("%s: no error, want %q; the kinds are %v", c.reason, c.says, kinds)
			case err != nil && err.Error() != c.says:
				t.Errorf("%s: error %q, want %q", c.reason, err, c.says)
			}
		})
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
	if _, err := op.kinds(types, nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
	op.Observes = op.Observes[:1]
	if k, err := op.kinds(types, nil); err != nil || len(k.owned) != 1 || len(k.observed) != 1 || len(k.watched) != 2 {
		t.Errorf("%+v, %v", k, err)
	}
}
