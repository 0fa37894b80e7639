package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// CopyratorRule keeps copies of ConfigMaps or Secrets in other namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=copyrators,singular=copyrator,shortName=copyr
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.source.kind`,description="What is copied."
// +kubebuilder:printcolumn:name=Sources,type=integer,JSONPath=`.status.matchedSources`,description="How many objects are copied."
// +kubebuilder:printcolumn:name=Namespaces,type=integer,JSONPath=`.status.targetNamespaces`,description="To how many namespaces."
// +kubebuilder:printcolumn:name=Synced,type=integer,JSONPath=`.status.synced`,description="How many copies are up to date."
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.status.desired`,description="How many copies there should be."
// +kubebuilder:printcolumn:name=Conflicts,type=integer,JSONPath=`.status.conflicts`,description="How many copies and sources conflict with another object or rule."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the copies are as the rule says."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Copyrator Rule",resources={{ConfigMap,v1,""},{Secret,v1,""}}
type CopyratorRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the rule.
	// +required
	Spec Spec `json:"spec"`

	// Status is the state of the copies. The operator alone writes it.
	// +optional
	Status v1.CopyratorRuleStatus `json:"status,omitempty,omitzero"`
}

// CommonStatus returns the address of the conditions and of the observed generation.
func (o *CopyratorRule) CommonStatus() *conditions.Status { return &o.Status.Status }

// CopyratorRuleList is a list of CopyratorRule objects.
//
// +kubebuilder:object:root=true
type CopyratorRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CopyratorRule `json:"items"`
}

// Spec is a rule.
type Spec struct {
	// Source selects the objects that are copied.
	// +required
	Source Source `json:"source"`

	// Targets selects the namespaces of the copies. Without it, copies are kept in all namespaces. In any case, none are in
	// kube-* and the namespaces of the operator's flag --exclude-namespaces, in a namespace that is being deleted, in one with
	// the annotation copyrator.flant.com/deny (unless it is "false"), nor in the namespace of a source. A rule outside of the
	// operator's namespace keeps copies only in its own namespace and in those whose annotation
	// copyrator.flant.com/accept-from has the rule's namespace in it.
	// +optional
	Targets Targets `json:"targets,omitempty,omitzero"`

	// ConflictPolicy is the policy for an object of a copy's name that is not a copy of this rule. Skip leaves it and reports
	// it. Adopt takes it over if its content is equal. Overwrite takes it over and makes it a copy. An object that has a
	// controller, or is another rule's copy, is left in any case. An object that was taken over is not deleted with the rule:
	// it stays, without the marks of a copy, and with the content of the copy. Only rules in the operator's namespace may have
	// another policy than Skip.
	// +optional
	// +kubebuilder:default=Skip
	ConflictPolicy v1.ConflictPolicy `json:"conflictPolicy,omitempty"`

	// OrphanPolicy is the policy for a copy that is no longer desired. Delete deletes it, Keep leaves it without an owner.
	// +optional
	// +kubebuilder:default=Delete
	OrphanPolicy v1.OrphanPolicy `json:"orphanPolicy,omitempty"`

	// ImmutableStrategy is the policy for a change of an immutable copy. Recreate deletes and creates it. Fail reports it.
	// +optional
	// +kubebuilder:default=Recreate
	ImmutableStrategy v1.ImmutableStrategy `json:"immutableStrategy,omitempty"`

	// DataKeys selects the entries of the sources that are copied. Without it, all are.
	// +optional
	DataKeys v1.DataKeys `json:"dataKeys,omitempty,omitzero"`

	// Labels selects the labels of copies: those of their source, without the stripped and with the added ones.
	// +optional
	// +kubebuilder:default={}
	Labels v1.Labels `json:"labels,omitempty,omitzero"`

	// Suspend stops all changes of the copies, until the rule is deleted.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DryRun reports the planned writes in the condition DryRun, and stops all changes of the copies until the rule is deleted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// Source selects the objects that are copied.
type Source struct {
	// Kind is the kind of the objects. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="kind cannot be changed: delete this rule and create another one"
	Kind Kind `json:"kind"`

	// Selector selects the objects by their labels. It must not be empty. Besides In, NotIn, Exists and DoesNotExist, the
	// operators of expressions are Gt and Lt, which compare integers. It has at most 32 labels and no expressions, or at most
	// 4096 characters in the form of a text such as "copyrator=true,team in (a, b)". A selector that is invalid in v1 has an
	// expression with the operator Malformed.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	// Namespaces are the namespaces of the objects. The default is the namespace of the rule. To read another one, the rule
	// has to be in the operator's namespace, or the source namespace must have the annotation copyrator.flant.com/allow-from
	// with the rule's namespace in it, or the object must have that annotation and the label copyrator.flant.com/shared. The
	// status reports names that no namespace can have.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Namespaces []string `json:"namespaces,omitempty"`
}

// Kind is the kind of sources and copies.
//
// +kubebuilder:validation:Enum=ConfigMap;Secret
type Kind string

// The kinds of sources and copies.
const (
	KindConfigMap Kind = "ConfigMap"
	KindSecret    Kind = "Secret"
)

// Targets selects the namespaces of the copies: those that match all of its fields.
type Targets struct {
	// Namespaces are the names of the namespaces, in which * stands for any number of characters and ? for one. The default
	// is all namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	Namespaces []string `json:"namespaces,omitempty"`

	// NamespaceSelector selects namespaces by at most 32 labels and at most 32 expressions. The default is all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// ExcludeNamespaces are the names of the namespaces that get no copy in any case, with * and ? as in namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`
}

// The operators of expressions in [Source.Selector] that package metav1 does not have.
const (
	// OperatorGreaterThan selects values that are greater than an integer.
	OperatorGreaterThan metav1.LabelSelectorOperator = "Gt"
	// OperatorLessThan selects values that are less than an integer.
	OperatorLessThan metav1.LabelSelectorOperator = "Lt"
	// OperatorMalformed is that of an expression whose key is the selector of v1 in JSON, which is no selector. The operator
	// reports it.
	OperatorMalformed metav1.LabelSelectorOperator = "Malformed"
)

// MalformedNamespace is the prefix of an item in [Source.Namespaces] that is followed by the field namespace of v1 in JSON,
// which is neither a name nor a list of names. The operator reports it.
const MalformedNamespace = "namespace: "
