package bundle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// owned describes the kinds that the operator in the folder owns, in the order of their names.
func (c *config) owned(dir string) ([]v1alpha1.CRDDescription, error) {
	if len(c.crds) == 0 {
		return nil, nil
	}
	said, err := readMarkers(dir)
	if err != nil {
		return nil, err
	}
	var all []v1alpha1.CRDDescription
	for _, crd := range c.crds {
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			schema := version.Schema.OpenAPIV3Schema
			kind := said[version.Name+"/"+crd.Spec.Names.Kind]
			d := v1alpha1.CRDDescription{
				Name: crd.Name, Version: version.Name, Kind: crd.Spec.Names.Kind,
				DisplayName: cmp.Or(kind.displayName, splitWords(crd.Spec.Names.Kind)), Description: schema.Description,
				Resources: kind.resources,
			}
			if d.Resources == nil { // an old version may have no Go type
				d.Resources = anyVersion(crd, said).resources
			}
			if d.Resources == nil {
				return nil, fmt.Errorf("%s: no marker lists the resources of an object: add the marker %s with resources to the type",
					crd.Name, markerName)
			}
			d.SpecDescriptors = fields(schema.Properties["spec"], kind.spec)
			for _, f := range fields(schema.Properties["status"], kind.status) {
				d.StatusDescriptors = append(d.StatusDescriptors, v1alpha1.StatusDescriptor(f))
			}
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.CRDDescription) int { return strings.Compare(a.Name+a.Version, b.Name+b.Version) })
	return all, nil
}

// anyVersion returns the markers of the first version of a kind that has resources.
func anyVersion(crd *apiextensionsv1.CustomResourceDefinition, said map[string]kindMarkers) (none kindMarkers) {
	for _, version := range crd.Spec.Versions {
		if kind := said[version.Name+"/"+crd.Spec.Names.Kind]; kind.resources != nil {
			return kind
		}
	}
	return none
}

// fields describes the fields of spec or status, by path: all fields of the first level, and all fields with markers.
func fields(schema apiextensionsv1.JSONSchemaProps, said map[string]fieldMarkers) []v1alpha1.SpecDescriptor {
	all := map[string]v1alpha1.SpecDescriptor{}
	for name, property := range schema.Properties {
		all[name] = v1alpha1.SpecDescriptor{
			Path: name, DisplayName: splitWords(name), Description: property.Description, XDescriptors: xDescriptors(name, property),
		}
	}
	for path, s := range said {
		d := all[path]
		d.Path = path
		d.DisplayName = cmp.Or(s.displayName, d.DisplayName, splitWords(path[strings.LastIndexByte(path, '.')+1:]))
		d.Description = cmp.Or(d.Description, s.description)
		if len(s.widgets) > 0 {
			d.XDescriptors = s.widgets
		}
		all[path] = d
	}
	byPath := func(a, b v1alpha1.SpecDescriptor) int { return strings.Compare(a.Path, b.Path) }
	return slices.SortedFunc(maps.Values(all), byPath)
}

// xDescriptors returns the descriptors that select a console's widget for a field.
func xDescriptors(name string, s apiextensionsv1.JSONSchemaProps) []string {
	const ui = "urn:alm:descriptor:com.tectonic.ui:"
	switch {
	case name == "conditions":
		return []string{"urn:alm:descriptor:io.kubernetes.conditions"}
	case name == "replicas":
		return []string{ui + "podCount"}
	case name == "resources" && s.Properties["limits"].Type != "":
		return []string{ui + "resourceRequirements"}
	case name == "phase" || name == "state":
		return []string{"urn:alm:descriptor:io.kubernetes.phase"}
	case len(s.Enum) > 0:
		var all []string
		for _, value := range s.Enum {
			all = append(all, ui+"select:"+strings.Trim(string(value.Raw), `"`))
		}
		return all
	case s.Type == "boolean":
		return []string{ui + "booleanSwitch"}
	case s.Type == "integer":
		return []string{ui + "number"}
	case s.Type == "string":
		return []string{"urn:alm:descriptor:text"}
	}
	return nil
}
