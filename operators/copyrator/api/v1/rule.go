package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rule is what users write.
type Rule struct {
	// RuleType says what is copied: configmap or secret. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ruleType cannot be changed: delete this rule and make another one"
	RuleType RuleType `json:"ruleType"`

	// Selector says which objects of the source namespaces are copied: those with all of these labels. It is a map, such as
	// {copyrator: "true"}, or a text with a label selector, such as "copyrator=true,team in (a, b)". It must select
	// something: an empty one would copy everything. It has at most 32 labels or 4096 characters.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Selector Selector `json:"selector"`

	// SourceNamespace is where the sources are: the name of a namespace, or a list of names. Without it and without namespaces,
	// it is the namespace of the rule. To read another one, the rule has to be in the operator's namespace, or the source
	// namespace must have the annotation copyrator.flant.com/allow-from with the rule's namespace in it, or the source must
	// have that annotation and the label copyrator.flant.com/shared. A list has at most 64 names.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	SourceNamespace Names `json:"namespace,omitempty,omitzero"`

	// Namespaces are more source namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`

	// TargetNamespaces are where copies are kept: names in which * stands for any number of characters and ? for one.
	// Without it and without targetNamespaceSelector, copies are kept in all namespaces. In any case, none are kept in kube-*
	// and the namespaces that the operator's --exclude-namespaces names, in a namespace that is being deleted, in one with the
	// annotation copyrator.flant.com/deny (unless it is "false"), nor in the one that a source is in. A rule outside of the
	// operator's namespace keeps copies only in its own namespace and in those whose annotation
	// copyrator.flant.com/accept-from has the rule's namespace in it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`

	// TargetNamespaceSelector limits the namespaces to those with these labels, at most 32, and expressions, at most 32.
	// +optional
	TargetNamespaceSelector *metav1.LabelSelector `json:"targetNamespaceSelector,omitempty"`

	// ExcludeNamespaces are those that get no copy in any case, with * and ? as in targetNamespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`

	// ConflictPolicy says what to do about an object of a copy's name that is not a copy of this rule. Skip leaves it alone
	// and reports it. Adopt takes it over if it says the same already. Overwrite takes it over and makes it a copy. What has a
	// controller, or is another rule's copy, is left alone in any case. What was taken over is not deleted with the rule: it
	// stays, without the marks of a copy, and with the content of the copy. Only rules in the operator's namespace may say
	// other than Skip.
	// +optional
	// +kubebuilder:default=Skip
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// OrphanPolicy says what becomes of a copy when the rule, its source or its place among the targets goes. Delete deletes
	// it, Keep leaves it to its namespace.
	// +optional
	// +kubebuilder:default=Delete
	OrphanPolicy OrphanPolicy `json:"orphanPolicy,omitempty"`

	// ImmutableStrategy says what to do about a copy that is immutable and has to change. Recreate deletes it and makes it
	// anew. Fail reports it.
	// +optional
	// +kubebuilder:default=Recreate
	ImmutableStrategy ImmutableStrategy `json:"immutableStrategy,omitempty"`

	// DataKeys says which entries of the sources are copied. Without it all are.
	// +optional
	DataKeys DataKeys `json:"dataKeys,omitempty,omitzero"`

	// CopyLabels says which labels copies have: those of their source, but for what is stripped and added here.
	// +optional
	// +kubebuilder:default={}
	CopyLabels Labels `json:"labels,omitempty,omitzero"`

	// Suspend makes the operator leave the copies as they are. A rule that is deleted goes with its copies nevertheless, as
	// orphanPolicy says.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DryRun makes the operator say in the condition DryRun what it would do, and do nothing until the rule is deleted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RuleType is a kind of objects.
//
// +kubebuilder:validation:Enum=configmap;secret;ConfigMap;Secret
type RuleType string

// ConflictPolicy is one of those named at [Rule].
//
// +kubebuilder:validation:Enum=Skip;Adopt;Overwrite
type ConflictPolicy string

// The conflict policies.
const (
	ConflictSkip      ConflictPolicy = "Skip"
	ConflictAdopt     ConflictPolicy = "Adopt"
	ConflictOverwrite ConflictPolicy = "Overwrite"
)

// OrphanPolicy is one of those named at [Rule].
//
// +kubebuilder:validation:Enum=Delete;Keep
type OrphanPolicy string

// The orphan policies.
const (
	OrphanDelete OrphanPolicy = "Delete"
	OrphanKeep   OrphanPolicy = "Keep"
)

// ImmutableStrategy is one of those named at [Rule].
//
// +kubebuilder:validation:Enum=Recreate;Fail
type ImmutableStrategy string

// The strategies for immutable copies.
const (
	ImmutableRecreate ImmutableStrategy = "Recreate"
	ImmutableFail     ImmutableStrategy = "Fail"
)

// DataKeys selects entries of data by their keys, in which * stands for any number of characters and ? for one.
type DataKeys struct {
	// Include are the entries to copy. Without it all are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:MinLength=1
	Include []string `json:"include,omitempty"`
	// Exclude are the entries to leave out in any case.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:MinLength=1
	Exclude []string `json:"exclude,omitempty"`
}

// Labels says how the labels of a copy differ from those of its source.
type Labels struct {
	// Strip are the labels that are not copied, with * and ? as in dataKeys. Those by which other tools take an object for
	// theirs are the default: argocd.argoproj.io/*, app.kubernetes.io/instance, app.kubernetes.io/managed-by, helm.sh/* and
	// kustomize.toolkit.fluxcd.io/*.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:default={"argocd.argoproj.io/*","app.kubernetes.io/instance","app.kubernetes.io/managed-by","helm.sh/*","kustomize.toolkit.fluxcd.io/*"}
	Strip []string `json:"strip,omitempty"`
	// Add are more labels. Those of a rule outside of the operator's namespace begin with copyrator.flant.com/, and so do the
	// labels that its copies have from their sources.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Add map[string]string `json:"add,omitempty"`
}
