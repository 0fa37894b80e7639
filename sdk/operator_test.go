package sdk

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// testObject is of a kind that some operator reconciles.
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
		"finalizer.web":    "", // custom resources may have such ones
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
		says   string // "" if it is fine
	}{
		"none":      {"an operator may have no children", nil, ""},
		"different": {"this is what it is for", []client.Object{&corev1.Secret{}, &appsv1.Deployment{}}, ""},
		"metadata":  {"large ones", []client.Object{MetadataOnly(&corev1.Secret{}), &appsv1.Deployment{}}, ""},
		"metadata twice": {
			"one object would be seen as two",
			[]client.Object{MetadataOnly(&corev1.Secret{}), &corev1.Secret{}},
			"field Owns lists Secret twice",
		},
		"twice": {
			"it would never be ready, waiting for a second informer",
			[]client.Object{loose, &corev1.Secret{}},
			"field Owns lists Secret twice",
		},
		"other version": {
			"one object would be seen as two",
			[]client.Object{&appsv1.Deployment{}, &appsv1beta1.Deployment{}},
			"field Owns lists Deployment.apps twice",
		},
		"own kind": {
			"it is watched already",
			[]client.Object{&corev1.ConfigMap{}},
			"field Owns lists ConfigMap, which is the operator's own kind",
		},
		"nothing at all": {"a slip", []client.Object{&corev1.Secret{}, nil}, "item 1 of field Owns is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := newKinds("us", scheme.Scheme, nil, &corev1.ConfigMap{}, c.owns)
			switch {
			case err == nil && (c.says != "" || len(k.owned) != len(c.owns)):
				t.Errorf("%s: nothing is said, want %q; the kinds are %v", c.reason, c.says, k.owned)
			case err != nil && err.Error() != `operator "us" is not usable: `+c.says:
				t.Errorf("%s: it says %q, want %q", c.reason, err, c.says)
			}
		})
	}
}
