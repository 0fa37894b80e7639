package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// CopyratorRule keeps copies of ConfigMaps or Secrets in other namespaces.
//
// Its fields are at the top, as those of the first Copyrator were.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=copyrators,singular=copyrator,shortName=copyr
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.ruleType`,description="What is copied."
// +kubebuilder:printcolumn:name=Sources,type=integer,JSONPath=`.status.matchedSources`,description="How many objects are copied."
// +kubebuilder:printcolumn:name=Namespaces,type=integer,JSONPath=`.status.targetNamespaces`,description="To how many namespaces."
// +kubebuilder:printcolumn:name=Synced,type=integer,JSONPath=`.status.synced`,description="How many copies are as they should be."
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.status.desired`,description="How many there should be."
// +kubebuilder:printcolumn:name=Conflicts,type=integer,JSONPath=`.status.conflicts`,description="How many copies and sources conflict with another object or rule."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is as the rule says."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Copyrator Rule",resources={{ConfigMap,v1,""},{Secret,v1,""}}
type CopyratorRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Rule `json:",inline"`

	// Status says what came of the rule. Only the operator writes it.
	// +optional
	Status CopyratorRuleStatus `json:"status,omitempty,omitzero"`
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
