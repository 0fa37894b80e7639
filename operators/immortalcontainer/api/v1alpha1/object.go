package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// ImmortalContainer is one container that runs forever. The operator keeps one pod for it, called
// <name>-immortalpod, and starts a new one after every kind of termination: a user deleted the pod, it was evicted, it
// failed, it succeeded, or its node was removed.
//
// The rules on the whole object compare with the stored one, because the API server evaluates them on every write of
// the status too: an object that was stored before a rule existed must not lose its status to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=immortalcontainers,singular=immortalcontainer,shortName=imc,categories=all
// +kubebuilder:printcolumn:name=Image,type=string,JSONPath=`.spec.image`,description="The image of the container."
// +kubebuilder:printcolumn:name=Pod,type=string,JSONPath=`.status.currentPod`,description="The pod that exists now."
// +kubebuilder:printcolumn:name=Starts,type=integer,JSONPath=`.status.startTimes`,description="How many pods were ever created."
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="What is going on, in one word."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the container runs and is ready."
// +kubebuilder:printcolumn:name=Node,type=string,JSONPath=`.status.nodeName`,description="The node of the pod."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || size(self.metadata.name) <= 51",fieldPath=".metadata",message="metadata.name is too long: the pod is called <name>-immortalpod and a host name may have 63 characters, so choose a name of at most 51 characters"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="size(self.spec.image) > 0 || (oldSelf.hasValue() && size(oldSelf.value().spec.image) == 0)",reason=FieldValueRequired,fieldPath=".spec.image",message="no image is given: set spec.image to the container image to keep running, for example nginx:latest"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.image.matches('^\\\\S*$') || (oldSelf.hasValue() && oldSelf.value().spec.image == self.spec.image)",fieldPath=".spec.image",message="an image reference contains no white space: remove it from spec.image, for example nginx:latest"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="size(self.spec.image) == 0 || !self.spec.image.matches('^\\\\S*$') || self.spec.image.matches('^(([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$') || (oldSelf.hasValue() && oldSelf.value().spec.image == self.spec.image)",fieldPath=".spec.image",message="no container image can have that name, and no node would start it: write spec.image as [registry[:port]/]name[:tag][@digest] with a name of lower-case letters and digits, for example nginx:latest"
// +operator-sdk:csv:customresourcedefinitions:displayName="ImmortalContainer",resources={{Pod,v1,""}}
type ImmortalContainer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to run and how to keep it running.
	// +required
	// +kubebuilder:default={image:""}
	Spec ImmortalContainerSpec `json:"spec"`
	// Status says what is running. Only the operator writes it.
	// +optional
	Status ImmortalContainerStatus `json:"status,omitempty,omitzero"`
}

// CommonStatus returns the address of the conditions and of the observed generation.
func (ic *ImmortalContainer) CommonStatus() *conditions.Status { return &ic.Status.Status }

// ImmortalContainerList is a list of ImmortalContainers.
//
// +kubebuilder:object:root=true
type ImmortalContainerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImmortalContainer `json:"items"`
}
