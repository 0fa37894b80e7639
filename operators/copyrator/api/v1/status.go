package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// CopyratorRuleStatus is what the operator found.
type CopyratorRuleStatus struct {
	conditions.Status `json:",inline"`

	// MatchedSources is how many objects are copied.
	// +optional
	// +kubebuilder:default=0
	MatchedSources int32 `json:"matchedSources"`
	// TargetNamespaces is to how many namespaces.
	// +optional
	// +kubebuilder:default=0
	TargetNamespaces int32 `json:"targetNamespaces"`
	// Desired is how many copies there should be.
	// +optional
	// +kubebuilder:default=0
	Desired int32 `json:"desired"`
	// Synced is how many copies are as they should be.
	// +optional
	// +kubebuilder:default=0
	Synced int32 `json:"synced"`
	// Failed is how many copies are refused for any reason or cannot be written. Pending copies do not count.
	// +optional
	// +kubebuilder:default=0
	Failed int32 `json:"failed"`
	// Conflicts is how many of the failed ones are kept out by a foreign object, another rule or a refusal, and how many
	// sources are by one of the same name that comes first.
	// +optional
	// +kubebuilder:default=0
	Conflicts int32 `json:"conflicts"`
	// Digest identifies the sources and the places of their copies. It does not depend on the content.
	// +optional
	Digest string `json:"digest,omitempty"`
	// LastSyncTime is when all copies were first as they should be, after the last change that the operator observed.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// Failures are the first of those that failed, and at most 20.
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

// Failure is a copy that is not as it should be, or a source that is not copied.
type Failure struct {
	// Namespace is that of the copy or, of a source that is not copied, its own.
	Namespace string `json:"namespace"`
	// Name is that of the source and of its copies.
	Name string `json:"name"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message is a sentence that names the fix.
	// +optional
	Message string `json:"message,omitempty"`
}
