package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// CopyratorRuleStatus is the observed state of a CopyratorRule.
type CopyratorRuleStatus struct {
	conditions.Status `json:",inline"`

	// MatchedSources is the number of objects that are copied.
	// +optional
	// +kubebuilder:default=0
	MatchedSources int32 `json:"matchedSources"`
	// TargetNamespaces is the number of target namespaces.
	// +optional
	// +kubebuilder:default=0
	TargetNamespaces int32 `json:"targetNamespaces"`
	// Desired is the number of desired copies.
	// +optional
	// +kubebuilder:default=0
	Desired int32 `json:"desired"`
	// Synced is the number of copies that are up to date.
	// +optional
	// +kubebuilder:default=0
	Synced int32 `json:"synced"`
	// Failed is the number of copies that are refused or cannot be written. Pending copies are not included.
	// +optional
	// +kubebuilder:default=0
	Failed int32 `json:"failed"`
	// Conflicts is the number of failed copies that conflict with a foreign object or another rule or that are refused, plus
	// the number of sources that another source of the same name has precedence over.
	// +optional
	// +kubebuilder:default=0
	Conflicts int32 `json:"conflicts"`
	// Digest identifies the sources and the places of their copies. It does not depend on the content.
	// +optional
	Digest string `json:"digest,omitempty"`
	// LastSyncTime is the time at which all copies were up to date for the first time after the last observed change.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// Failures lists the first 20 failures.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Failures []Failure `json:"failures,omitempty"`
}

// The condition types of the operator.
const (
	// ConditionAuthorized reports whether the rule may read all of its source namespaces.
	ConditionAuthorized = "Authorized"
	// ConditionSynced reports whether every desired copy is up to date.
	ConditionSynced = "Synced"
	// ConditionConflicts reports whether a foreign object has the name of a copy.
	ConditionConflicts = "Conflicts"
	// ConditionLimited reports that the limits of rules outside of the operator's namespace leave out copies. It is present
	// only then.
	ConditionLimited = "Limited"
)

// Failure is a copy that is not up to date, or a source that is not copied.
type Failure struct {
	// Namespace is the namespace of the copy, or of the source if it is not copied.
	Namespace string `json:"namespace"`
	// Name is the name of the source and its copies.
	Name string `json:"name"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message describes the failure and how to correct it.
	// +optional
	Message string `json:"message,omitempty"`
}
