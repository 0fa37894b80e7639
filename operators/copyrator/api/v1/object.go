package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// CopyratorRule keeps copies of ConfigMaps or Secrets in other namespaces.
//
// Its fields are at the top level and not in a spec, for compatibility with the first Copyrator.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=copyrators,singular=copyrator,shortName=copyr
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.ruleType`,description="The kind of the copied objects."
// +kubebuilder:printcolumn:name=Sources,type=integer,JSONPath=`.status.matchedSources`,description="The number of objects that are copied."
// +kubebuilder:printcolumn:name=Namespaces,type=integer,JSONPath=`.status.targetNamespaces`,description="The number of target namespaces."
// +kubebuilder:printcolumn:name=Synced,type=integer,JSONPath=`.status.synced`,description="The number of copies that are up to date."
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.status.desired`,description="The number of desired copies."
// +kubebuilder:printcolumn:name=Conflicts,type=integer,JSONPath=`.status.conflicts`,description="The number of copies and sources that conflict with another object or rule."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all copies are up to date."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Copyrator Rule",resources={{ConfigMap,v1,""},{Secret,v1,""}}
type CopyratorRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Rule `json:",inline"`

	// Status is the observed state. Only the operator writes it.
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
