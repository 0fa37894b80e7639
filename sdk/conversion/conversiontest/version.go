package conversiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// perCallLimit is the limit of the API server for the cost of one CEL rule.
const perCallLimit = 1000000

// version is a version of the CustomResourceDefinition, with the checks of the API server.
type version struct {
	name      string
	schema    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator // may be nil
	goType    reflect.Type   // may be nil
}

func newVersion(v *apiextensionsv1.CustomResourceDefinitionVersion) (*version, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, errors.New("it has no schema")
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	s, err := structural.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &version{name: v.Name, schema: s, validator: validator, rules: cel.NewValidator(s, true, perCallLimit)}, nil
}

// setDefaults sets the defaults of the schema, as the API server does when it reads an object.
func (v *version) setDefaults(object map[string]any) { defaulting.Default(object, v.schema) }

// hasDefaults reports whether an object has the defaults of the schema.
func (v *version) hasDefaults(object map[string]any) bool {
	defaulted := copyOf(object)
	v.setDefaults(defaulted)
	return reflect.DeepEqual(object, defaulted)
}

// validate returns what the API server would reject, and the fields that it would drop. An object that does not decode as
// the Go type is invalid as well, such as one with a quantity that only the pattern of the schema accepts: the conversion
// restores no kept values in it.
func (v *version) validate(ctx context.Context, object map[string]any) error {
	errs := validation.ValidateCustomResource(nil, object, v.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.schema, object)...)
	if v.rules != nil && len(errs) == 0 {
		broken, _ := v.rules.Validate(ctx, field.NewPath(""), v.schema, object, nil, math.MaxInt64)
		errs = append(errs, broken...)
	}
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	if unknown := pruning.PruneWithOptions(copyOf(object), v.schema, true, structural.UnknownFieldPathOptions{
		TrackUnknownFieldPaths: true,
	}); len(unknown) > 0 {
		return fmt.Errorf("the schema has no field %s", strings.Join(unknown, ", "))
	}
	return v.decode(object)
}

// decode returns the error of decoding an object as the Go type of the version.
func (v *version) decode(object map[string]any) error {
	if v.goType == nil {
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, reflect.New(v.goType).Interface())
}

// listKeys returns the keys of all lists that are maps, by their paths.
func listKeys(s *structural.Structural, path string, keys map[string][]string) map[string][]string {
	if s == nil {
		return keys
	}
	if s.XListType != nil && *s.XListType == "map" {
		keys[path] = s.XListMapKeys
	}
	listKeys(s.Items, path+"[]", keys)
	for name, p := range s.Properties {
		listKeys(&p, strings.TrimPrefix(path+"."+name, "."), keys)
	}
	if s.AdditionalProperties != nil {
		listKeys(s.AdditionalProperties.Structural, path+".*", keys)
	}
	return keys
}

// checkListKeys compares the declared keys with those of the schema.
func (v *version) checkListKeys(declared map[string][]string) error {
	var errs []error
	want := listKeys(v.schema, "", map[string][]string{})
	for path, keys := range want {
		if got := declared[path]; !slices.Equal(got, keys) {
			errs = append(errs, fmt.Errorf("version %s: ListKeys of %s are %q, but x-kubernetes-list-map-keys are %q: "+
				"write %q: {\"%s\"}", v.name, path, got, keys, path, strings.Join(keys, `", "`)))
		}
	}
	for path := range declared {
		if want[path] == nil {
			errs = append(errs, fmt.Errorf("version %s: ListKeys has %s, which is no list of x-kubernetes-list-type map",
				v.name, path))
		}
	}
	return errors.Join(errs...)
}
