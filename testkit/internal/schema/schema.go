package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// A Schema is one version of a custom resource. It is immutable and safe for concurrent use.
type Schema struct {
	// Kind is the kind of the objects.
	Kind schema.GroupVersionKind
	// Namespaced reports whether the objects are namespaced.
	Namespaced bool

	root       *node
	validator  validation.SchemaValidator
	properties []*node
	index      map[string]*node
}

// Parse reads a CustomResourceDefinition from YAML or JSON; see New. Other objects in the data are ignored.
func Parse(data []byte, version string) (*Schema, error) {
	objects, err := manifest.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading a CustomResourceDefinition: %w", err)
	}
	objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool {
		return u.GetKind() != "CustomResourceDefinition"
	})
	if len(objects) != 1 {
		var names []string
		for _, u := range objects {
			names = append(names, u.GetName())
		}
		return nil, fmt.Errorf("reading a CustomResourceDefinition: there are %d in the data %v, give one",
			len(objects), names)
	}
	if v := objects[0].GetAPIVersion(); v != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: its apiVersion is %q, only %q is supported",
			objects[0].GetName(), v, apiextensionsv1.SchemeGroupVersion)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &crd); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", objects[0].GetName(), err)
	}
	return New(&crd, version)
}

// New returns the schema of a version of a CustomResourceDefinition. An empty version is the storage version.
func New(crd *apiextensionsv1.CustomResourceDefinition, version string) (*Schema, error) {
	v, err := find(crd, version)
	if err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", crd.Name, err)
	}
	s := &Schema{
		Kind:       schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind},
		Namespaced: crd.Spec.Scope != apiextensionsv1.ClusterScoped,
		index:      map[string]*node{},
	}
	if err := s.read(v); err != nil {
		return nil, fmt.Errorf("reading version %s of CustomResourceDefinition %s: %w", v.Name, crd.Name, err)
	}
	return s, nil
}

func find(
	crd *apiextensionsv1.CustomResourceDefinition, version string,
) (*apiextensionsv1.CustomResourceDefinitionVersion, error) {
	names := make([]string, 0, len(crd.Spec.Versions))
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name == version || version == "" && v.Storage {
			return v, nil
		}
		names = append(names, v.Name)
	}
	if version == "" {
		return nil, errors.New("none of its versions has storage: true")
	}
	return nil, fmt.Errorf("it has no version %q but %s", version, strings.Join(names, ", "))
}

func (s *Schema) read(v *apiextensionsv1.CustomResourceDefinitionVersion) error {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return errors.New("it has no schema.openAPIV3Schema: generate it, for example with controller-gen")
	}
	var props apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		v.Schema.OpenAPIV3Schema, &props, nil)
	if err != nil {
		return err
	}
	root, err := structural.NewStructural(&props)
	if err != nil {
		return err
	}
	if errs := structural.ValidateStructural(nil, root); len(errs) > 0 {
		return fmt.Errorf("the schema is not structural: %w", errs.ToAggregate())
	}
	if s.validator, _, err = validation.NewSchemaValidator(&props); err != nil {
		return err
	}
	s.root = build(root, "", nil, nil)
	s.list(v.Subresources)
	return nil
}

// list collects all properties of the schema.
func (s *Schema) list(sub *apiextensionsv1.CustomResourceSubresources) {
	for _, name := range []string{"annotations", "labels"} {
		s.add(metadata(name))
	}
	for _, name := range s.root.names() {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			s.add(s.root.fields[name])
		}
	}
	if sub == nil || sub.Scale == nil {
		return
	}
	if n, ok := s.index[strings.TrimPrefix(sub.Scale.SpecReplicasPath, ".")]; ok && n.kind() == typeInteger {
		n.known = countSchema
	}
}

// metadata returns the node of labels or annotations. The schema of a custom resource does not describe them.
func metadata(name string) *node {
	entries := &structural.Structural{Generic: structural.Generic{Type: typeString}}
	s := &structural.Structural{
		Generic:              structural.Generic{Type: typeObject},
		AdditionalProperties: &structural.StructuralOrBool{Structural: entries, Bool: true},
	}
	n := build(s, name, Path{Field("metadata"), Field(name)}, nil)
	n.known = metadataSchema
	n.element = nil
	return n
}

// add collects a property and everything below it.
func (s *Schema) add(n *node) {
	s.properties = append(s.properties, n)
	s.index[n.property] = n
	for _, name := range n.names() {
		s.add(n.fields[name])
	}
	if n.element != nil {
		s.add(n.element)
	}
}

// Properties returns the paths of all properties that Mutations changes, in the order of the schema. [*] is any item of
// a list and any entry of a map.
func (s *Schema) Properties() []string {
	names := make([]string, len(s.properties))
	for i, n := range s.properties {
		names[i] = n.property
	}
	return names
}

// Semantic reports whether a property has a meaning beyond its type: it is a part of the Kubernetes API, or resembles
// one.
func (s *Schema) Semantic(property string) bool {
	n, ok := s.index[property]
	return ok && n.known != nil
}

// Structural returns the schema as the API server holds it. It must not be modified.
func (s *Schema) Structural() *structural.Structural { return s.root.Structural }
