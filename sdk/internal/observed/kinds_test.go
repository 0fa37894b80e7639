package observed

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
			k := &Kinds{
				Scheme: scheme.Scheme, Primary: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
				Partial: map[schema.GroupVersionKind]bool{},
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
