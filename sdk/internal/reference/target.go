// Package reference watches objects that a custom resource refers to but does not own: single objects, and selections by
// label.
//
// [Watches] keeps one watch for each [Target] while at least one object uses it, and enqueues its users on a change. A
// [Reader] is the access of one reconcile; it records the used targets. A [DerivedCache] holds values that were computed
// from the full content of objects with a metadata watch.
//
// Children are not read here: package observed caches them.
package reference

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Target identifies a reference: one object or, without a name, the objects of one or all namespaces with these labels.
type Target struct {
	object.ID
	// Form tells apart watches of the same objects in different forms, see [FormOf].
	Form   Form
	Labels string
	// Shared makes all selections of the kind in the namespace share one watch. The labels are evaluated in memory.
	Shared bool
	// Reduced makes the watch keep only a part of the metadata, with these annotations, which are joined by commas.
	Reduced     bool
	Annotations string
}

// Form is the form in which objects are read: in their Go type, as metadata, or unstructured.
type Form string

// FormOf returns the form of an object.
func FormOf(o client.Object) Form {
	switch o.(type) {
	case *metav1.PartialObjectMetadata:
		return "metadata"
	case *unstructured.Unstructured:
		return "unstructured"
	default:
		return ""
	}
}

// watchKey identifies the watch that serves the target.
func (t Target) watchKey() Target {
	if t.Shared {
		t.Labels = ""
	}
	return t
}

// Options returns the options of a list request for the target.
func (t Target) Options() ([]client.ListOption, error) {
	if t.Key.Name != "" {
		return []client.ListOption{
			client.InNamespace(t.Key.Namespace), client.MatchingFields{metav1.ObjectNameField: t.Key.Name},
		}, nil
	}
	selector, err := labels.Parse(t.Labels)
	if err != nil {
		return nil, fmt.Errorf("reading the labels of %s: %w", t, err)
	}
	return []client.ListOption{client.InNamespace(t.Key.Namespace), client.MatchingLabelsSelector{Selector: selector}}, nil
}

// String returns "Kind name", or "kind Kind" for a selection.
func (t Target) String() string {
	if t.Key.Name != "" {
		return t.ID.String()
	}
	return "kind " + t.GVK.Kind
}

// seenFrom is [Target.String] for an object in this namespace.
func (t Target) seenFrom(namespace string) string {
	if t.Key.Name != "" {
		return t.From(namespace)
	}
	return t.String()
}

// SelectFrom returns the objects that the target selects, in the form of like.
func (t Target) SelectFrom(all map[object.ID]client.Object, like client.Object) ([]client.Object, error) {
	selector, err := labels.Parse(t.Labels)
	if err != nil {
		return nil, fmt.Errorf("reading the labels of %s: %w", t, err)
	}
	_, partial := like.(*metav1.PartialObjectMetadata)
	var found []client.Object
	for id, o := range all {
		elsewhere := t.Key.Namespace != "" && id.Key.Namespace != t.Key.Namespace
		if id.GVK != t.GVK || elsewhere || !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		if partial {
			o = object.Metadata(o, t.GVK)
		}
		found = append(found, o)
	}
	return found, nil
}
