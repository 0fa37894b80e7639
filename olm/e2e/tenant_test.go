package e2e_test

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tenant adds a field that no object has: optional, or required if necessary is true.
func tenant(necessary bool) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		for _, version := range crd.Spec.Versions {
			root := version.Schema.OpenAPIV3Schema
			fields, nested := root.Properties["spec"]
			if !nested {
				fields = *root
			}
			fields.Properties["tenant"] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "Who pays."}
			if necessary {
				fields.Default = nil
				fields.Required = append(fields.Required, "tenant")
			}
			if nested {
				root.Properties["spec"] = fields
			} else {
				*root = fields
			}
		}
	}
}

// tenantOf returns the path of that field in an object.
func tenantOf(o *unstructured.Unstructured) []string {
	if _, nested := o.Object["spec"]; nested {
		return []string{"spec", "tenant"}
	}
	return []string{"tenant"}
}

// setField sets the field in all objects of operators that have definitions.
func (s *suite) setField(objects []client.Object) {
	s.t.Helper()
	for _, o := range objects {
		u := o.(*unstructured.Unstructured)
		if u.GetKind() == "Deployment" {
			continue
		}
		s.k.Get(u)
		s.k.Update(u, func() {
			if err := unstructured.SetNestedField(u.Object, "shop", tenantOf(u)...); err != nil {
				s.t.Fatal(err)
			}
		})
		if value, _, _ := unstructured.NestedString(u.Object, tenantOf(u)...); value != "shop" {
			s.t.Errorf("%s has the tenant %q", u.GetName(), value)
		}
	}
	s.waitReady(objects)
}

// expectNoField expects the field to be absent in all objects.
func (s *suite) expectNoField(objects []client.Object) {
	s.t.Helper()
	for _, o := range objects {
		u := o.(*unstructured.Unstructured)
		s.k.Get(u)
		if _, found, _ := unstructured.NestedString(u.Object, tenantOf(u)...); found {
			s.t.Errorf("%s has a field that its definition does not have", u.GetName())
		}
	}
}
