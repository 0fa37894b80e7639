package schema

import (
	"context"
	"fmt"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Violations returns the places where obj violates the schema, with the API server's messages, after defaulting. An
// unknown property is a violation. CEL rules are not evaluated.
func (s *Schema) Violations(obj *unstructured.Unstructured) (field.ErrorList, error) {
	normal, err := s.Normal(obj)
	if err != nil {
		return nil, err
	}
	return s.violations(normal), nil
}

// violations sets the defaults of obj and prunes unknown properties.
func (s *Schema) violations(obj *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(obj.Object, s.root.Structural, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Forbidden(field.NewPath(path), "the schema has no such property"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, s.root.Structural)
	defaulting.Default(obj.Object, s.root.Structural)
	errs = append(errs, validation.ValidateCustomResource(nil, obj.Object, s.validator)...)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, obj.Object, s.root.Structural, false)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, s.root.Structural, obj.Object)...)
}

// jsonOf copies an object through JSON, so that numbers are int64 or float64 and nothing is shared.
func jsonOf(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := utiljson.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("reading its JSON: %w", err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func copied(value any) any { return runtime.DeepCopyJSONValue(value) }
