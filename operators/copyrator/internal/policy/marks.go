package policy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// The annotations and labels by which users permit, deny and refuse copies. The values of annotations are comma-separated
// lists of patterns, at most 64.
const (
	// AllowFromAnnotation on a namespace permits rules in those namespaces to read it. On an object with [SharedLabel] it
	// permits them to read that object.
	AllowFromAnnotation = LabelPrefix + "allow-from"
	// SharedLabel, with any value, makes [AllowFromAnnotation] on an object in a namespace that does not permit reading
	// effective: objects without it are not watched.
	SharedLabel = LabelPrefix + "shared"
	// AcceptFromAnnotation on a namespace permits rules in those namespaces to copy to it.
	AcceptFromAnnotation = LabelPrefix + "accept-from"
	// DenyAnnotation on a namespace forbids all copies, with any value except "" and "false".
	DenyAnnotation = LabelPrefix + "deny"
	// RefuseLabel, with any value, on a ConfigMap refuses copies in its namespace: those whose names match
	// [RefuseAnnotation], or all without that annotation. It needs the permission to write ConfigMaps only.
	RefuseLabel = LabelPrefix + "refuse"
	// RefuseAnnotation lists the names of the copies that a ConfigMap with [RefuseLabel] refuses.
	RefuseAnnotation = LabelPrefix + "refuse"
)

// The metadata that the operator writes.
const (
	// LabelPrefix is the prefix of the operator's own labels and annotations. Copies of rules outside of the operator's
	// namespace have no other labels than the owner's and those with this prefix.
	LabelPrefix = "copyrator.flant.com/"
	// SourceAnnotation on a copy names its source, as "namespace/name".
	SourceAnnotation = LabelPrefix + "source"
	// TakenOverAnnotation marks a copy that replaced an existing object. It is orphaned where other copies are deleted.
	TakenOverAnnotation = LabelPrefix + "taken-over"
	// ManagedByLabel is the label of all copies.
	ManagedByLabel = "app.kubernetes.io/managed-by"
)

// isReserved reports whether a label has a meaning for the operator, so that no copy may have it from its source or rule.
func isReserved(key string) bool {
	return key == RefuseLabel || key == SharedLabel || key == ManagedByLabel || strings.HasPrefix(key, "homeostat.dev/")
}

// IsCopy reports whether an object has any mark of a copy. All marks count, so that a copy does not become a source when
// it loses one.
func IsCopy(o metav1.Object) bool {
	controller, annotations := metav1.GetControllerOf(o), o.GetAnnotations()
	return o.GetLabels()[apply.OwnerUIDLabel] != "" || annotations[apply.OwnerAnnotation] != "" ||
		annotations[SourceAnnotation] != "" || controller != nil && controller.Kind == "CopyratorRule"
}

// Annotations are the annotations of namespaces, sources and refusals that the operator evaluates.
func Annotations() []string {
	return []string{
		AllowFromAnnotation, AcceptFromAnnotation, DenyAnnotation, RefuseAnnotation, SourceAnnotation, apply.OwnerAnnotation,
	}
}

// Release removes the operator's metadata from a copy that replaced an existing object and reports whether it is one. Other
// copies are not changed.
func Release(o metav1.Object, managedBy string) bool {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if annotations[TakenOverAnnotation] == "" {
		return false
	}
	for _, key := range []string{TakenOverAnnotation, SourceAnnotation, apply.DigestAnnotation, apply.OwnerAnnotation} {
		delete(annotations, key)
	}
	delete(labels, apply.OwnerUIDLabel)
	if labels[ManagedByLabel] == managedBy {
		delete(labels, ManagedByLabel)
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return true
}
