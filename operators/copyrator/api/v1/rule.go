package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rule is the specification of a CopyratorRule.
type Rule struct {
	// RuleType is the kind of the copied objects: configmap or secret. It is immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ruleType cannot be changed: delete this rule and make another one"
	RuleType RuleType `json:"ruleType"`

	// Selector selects the objects to copy in the source namespaces. It is a map of labels, such as {copyrator: "true"}, or a
	// string with a label selector, such as "copyrator=true,team in (a, b)". An empty selector is invalid, because it would
	// copy every object. The maximum is 32 labels or 4096 characters.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Selector Selector `json:"selector"`

	// SourceNamespace is the source namespace: one name, or a list of at most 64 names. The default, if namespaces is empty
	// too, is the namespace of the rule. A rule outside of the operator's namespace may read another namespace only if that
	// namespace has the annotation copyrator.flant.com/allow-from with the rule's namespace in its value, or if the source
	// object has that annotation and the label copyrator.flant.com/shared.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	SourceNamespace Names `json:"namespace,omitempty,omitzero"`

	// Namespaces lists further source namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`

	// TargetNamespaces lists the names of the target namespaces. In a name, * matches any number of characters, and ? matches
	// one. The default, if targetNamespaceSelector is not set either, is all namespaces. These namespaces never get a copy:
	// kube-*, those of the operator's flag --exclude-namespaces, a terminating namespace, a namespace with the annotation
	// copyrator.flant.com/deny (unless its value is "false"), and the namespace of the source. A rule outside of the operator's
	// namespace copies only to its own namespace and to namespaces with the annotation copyrator.flant.com/accept-from that has
	// the rule's namespace in its value.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`

	// TargetNamespaceSelector selects the target namespaces by their labels, with at most 32 labels and 32 expressions. A
	// target namespace must match both this selector and targetNamespaces.
	// +optional
	TargetNamespaceSelector *metav1.LabelSelector `json:"targetNamespaceSelector,omitempty"`

	// ExcludeNamespaces lists namespaces that never get a copy, with * and ? as in targetNamespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*?]+$`
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`

	// ConflictPolicy applies to an existing object that has the name of a copy and is not a copy of this rule. Skip does not
	// change it and reports a conflict. Adopt takes it over if its content is that of the copy. Overwrite takes it over and
	// replaces its content. An object that has a controller or is a copy of another rule is never taken over. An object that
	// was taken over is not deleted with the rule: it remains with the content of the copy, without the labels and annotations
	// of a copy. Rules outside of the operator's namespace can use Skip only.
	// +optional
	// +kubebuilder:default=Skip
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// OrphanPolicy applies to a copy whose rule or source is deleted, or whose namespace is no longer a target. Delete deletes
	// the copy. Keep leaves it in its namespace.
	// +optional
	// +kubebuilder:default=Delete
	OrphanPolicy OrphanPolicy `json:"orphanPolicy,omitempty"`

	// ImmutableStrategy applies to an immutable copy whose content must change. Recreate deletes the copy and creates it again.
	// Fail reports it.
	// +optional
	// +kubebuilder:default=Recreate
	ImmutableStrategy ImmutableStrategy `json:"immutableStrategy,omitempty"`

	// DataKeys selects the entries of the sources that are copied. The default is all entries.
	// +optional
	DataKeys DataKeys `json:"dataKeys,omitempty,omitzero"`

	// CopyLabels sets the labels of the copies: those of the source, without the stripped ones, and the added ones.
	// +optional
	// +kubebuilder:default={}
	CopyLabels Labels `json:"labels,omitempty,omitzero"`

	// Suspend stops all changes of the copies. The deletion of the rule still applies orphanPolicy.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DryRun reports the planned writes in the condition DryRun and does not perform them. The deletion of the rule ends it.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RuleType is the kind of the copied objects.
//
// +kubebuilder:validation:Enum=configmap;secret;ConfigMap;Secret
type RuleType string

// ConflictPolicy is a policy for existing objects. See [Rule].
//
// +kubebuilder:validation:Enum=Skip;Adopt;Overwrite
type ConflictPolicy string

// The conflict policies.
const (
	ConflictSkip      ConflictPolicy = "Skip"
	ConflictAdopt     ConflictPolicy = "Adopt"
	ConflictOverwrite ConflictPolicy = "Overwrite"
)

// OrphanPolicy is a policy for copies that are no longer needed. See [Rule].
//
// +kubebuilder:validation:Enum=Delete;Keep
type OrphanPolicy string

// The orphan policies.
const (
	OrphanDelete OrphanPolicy = "Delete"
	OrphanKeep   OrphanPolicy = "Keep"
)

// ImmutableStrategy is a strategy for immutable copies. See [Rule].
//
// +kubebuilder:validation:Enum=Recreate;Fail
type ImmutableStrategy string

// The strategies.
const (
	ImmutableRecreate ImmutableStrategy = "Recreate"
	ImmutableFail     ImmutableStrategy = "Fail"
)

// DataKeys selects entries of data by their keys. In a key, * matches any number of characters, and ? matches one.
type DataKeys struct {
	// Include lists the entries to copy. The default is all entries.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:MinLength=1
	Include []string `json:"include,omitempty"`
	// Exclude lists the entries that are not copied. It has precedence over include.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:MinLength=1
	Exclude []string `json:"exclude,omitempty"`
}

// Labels sets the differences between the labels of a copy and those of its source.
type Labels struct {
	// Strip lists the labels that are not copied, with * and ? as in dataKeys. The default is the labels by which other tools
	// identify their objects: argocd.argoproj.io/*, app.kubernetes.io/instance, app.kubernetes.io/managed-by, helm.sh/* and
	// kustomize.toolkit.fluxcd.io/*.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:default={"argocd.argoproj.io/*","app.kubernetes.io/instance","app.kubernetes.io/managed-by","helm.sh/*","kustomize.toolkit.fluxcd.io/*"}
	Strip []string `json:"strip,omitempty"`
	// Add sets further labels. For a rule outside of the operator's namespace, they and the labels copied from the sources must
	// begin with copyrator.flant.com/.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Add map[string]string `json:"add,omitempty"`
}
