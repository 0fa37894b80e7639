package scenario

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

const crdKind = "CustomResourceDefinition"

// kinds holds the kinds of a scenario's objects and definitions, by name.
type kinds map[string][]schema.GroupVersionKind

func (k kinds) add(gvk schema.GroupVersionKind) {
	if !slices.Contains(k[gvk.Kind], gvk) {
		k[gvk.Kind] = append(k[gvk.Kind], gvk)
	}
}

// define adds the kind of a CustomResourceDefinition, in its stored version. It returns false if there is none.
func (k kinds) define(object *unstructured.Unstructured) bool {
	var crd apiextensionsv1.CustomResourceDefinition
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd)
	if err != nil || crd.Spec.Group == "" || crd.Spec.Names.Kind == "" || len(crd.Spec.Versions) == 0 {
		return false
	}
	name := crd.Spec.Versions[0].Name
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			name = v.Name
		}
	}
	k.add(schema.GroupVersionKind{Group: crd.Spec.Group, Version: name, Kind: crd.Spec.Names.Kind})
	return true
}

// resolve finds the only kind of this name. The error explains how to make it unique.
func (k kinds) resolve(name string) (schema.GroupVersionKind, error) {
	candidates := k[name]
	if len(candidates) == 0 {
		candidates = builtin(name)
	}
	switch len(candidates) {
	case 0:
		return schema.GroupVersionKind{}, fmt.Errorf("kind %s is neither one of the scenario's crds and objects, "+
			"nor one of Kubernetes itself: correct it, or add apiVersion", name)
	case 1:
		return candidates[0], nil
	default:
		return schema.GroupVersionKind{}, fmt.Errorf("kind %s is both in %s and in %s: add apiVersion",
			name, candidates[0].GroupVersion(), candidates[1].GroupVersion())
	}
}

// stableVersion matches stable versions.
var stableVersion = regexp.MustCompile(`^v\d+$`)

// builtin finds a kind of Kubernetes itself, in a stable version.
func builtin(name string) []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		if gvk.Kind != name || !stableVersion.MatchString(gvk.Version) {
			continue
		}
		if gvk.Group == "" { // Events are in another group, too, which scenarios do not use
			return []schema.GroupVersionKind{gvk}
		}
		found = append(found, gvk)
	}
	slices.SortFunc(found, func(a, b schema.GroupVersionKind) int {
		// autoscaling has v1 and v2 of one kind: the newer one is the usual one.
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	return slices.CompactFunc(found, func(a, b schema.GroupVersionKind) bool { return a.Group == b.Group })
}
