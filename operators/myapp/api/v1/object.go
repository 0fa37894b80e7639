package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// MyApp is an image that runs with a volume and, if asked for, a name in the cluster, a way in from outside and as many
// pods as it needs.
//
// The rules on the whole object compare with the stored one, because the API server evaluates them on every write of the
// status too: an object that was stored before a rule existed must not lose its status to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=myapps,singular=myapp,shortName=ma,categories=all
// +kubebuilder:printcolumn:name=Image,type=string,JSONPath=`.spec.image`,description="The image that should run."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is as specified and works."
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=`.status.readyReplicas`,description="How many pods can serve."
// +kubebuilder:printcolumn:name=Volume,type=string,JSONPath=`.status.volume.phase`,description="The phase of the claim."
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="What is going on, in one word."
// +kubebuilder:printcolumn:name=URL,type=string,JSONPath=`.status.url`,priority=1,description="Where it is reached from outside."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",fieldPath=".metadata",message="metadata.name is too long: it becomes the label app of the pods, so choose one of at most 63 characters"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.service.enabled) && self.spec.service.enabled) || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$') || (oldSelf.hasValue() && has(oldSelf.value().spec.service.enabled) && oldSelf.value().spec.service.enabled)",fieldPath=".spec.service.enabled",message="metadata.name does not fit a Service, which has the same name: leave spec.service.enabled false, or choose a name of lower-case letters, digits and dashes that begins with a letter"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!((has(self.spec.replicas) && self.spec.replicas > 1 || has(self.spec.autoscaling) && self.spec.autoscaling.maxReplicas > 1) && self.spec.storage.enabled && self.spec.storage.accessModes.all(m, m in ['ReadWriteOnce', 'ReadWriteOncePod'])) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.replicas",message="a ReadWriteOnce volume cannot back several replicas: set spec.storage.accessModes to ReadWriteMany in a new MyApp, set spec.storage.enabled to false, or run one replica"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.replicas) && has(self.spec.autoscaling)) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.replicas",message="spec.replicas and spec.autoscaling contradict each other: remove one of them"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.ingress.enabled) && self.spec.ingress.enabled) || (has(self.spec.service.enabled) && self.spec.service.enabled && has(self.spec.ports) && size(self.spec.ports) > 0) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.ingress.enabled",message="an Ingress needs a Service with a port to lead to: set spec.service.enabled to true and name a port"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.ingress.enabled) && self.spec.ingress.enabled) || (has(self.spec.ingress.host) && size(self.spec.ingress.host) > 0) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.ingress.host",message="an Ingress needs a host: set spec.ingress.host to the name by which clients ask for the app"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.ingress.enabled) && self.spec.ingress.enabled && has(self.spec.ports) && size(self.spec.ports) > 0) || self.spec.ports[0].protocol == 'TCP' || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.ports",message="an Ingress leads to the first port, and HTTP needs TCP: put a port with protocol TCP first in spec.ports, or set spec.ingress.enabled to false"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.service.enabled) && self.spec.service.enabled) || (has(self.spec.ports) && size(self.spec.ports) > 0) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.service.enabled",message="a Service needs a port to lead to: name one in spec.ports, or set spec.service.enabled to false"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.spec.service.enabled) && self.spec.service.enabled && has(self.spec.service.port) && has(self.spec.ports) && self.spec.ports.exists(p, p.name != self.spec.ports[0].name && p.containerPort == self.spec.service.port && p.protocol == self.spec.ports[0].protocol)) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.service.port",message="spec.service.port is the number of another port than the first: choose one that spec.ports has not"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.volume) || !has(oldSelf.status.volume.requested) || !has(self.spec.storage.size) || !has(oldSelf.spec.storage.size) || oldSelf.spec.storage.size == self.spec.storage.size || !isQuantity(self.spec.storage.size) || !isQuantity(oldSelf.status.volume.requested) || quantity(self.spec.storage.size).compareTo(quantity(oldSelf.status.volume.requested)) >= 0",fieldPath=".spec.storage.size",message="a volume cannot become smaller than what was granted: set spec.storage.size to at least status.volume.requested"
// +operator-sdk:csv:customresourcedefinitions:displayName="MyApp",resources={{Deployment,v1,""},{PersistentVolumeClaim,v1,""},{Service,v1,""},{Ingress,v1,""},{HorizontalPodAutoscaler,v1,""},{PodDisruptionBudget,v1,""}}
type MyApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what to run.
	// +optional
	// +kubebuilder:default={}
	Spec MyAppSpec `json:"spec,omitempty,omitzero"`
	// Status says what runs. Only the operator writes it.
	// +optional
	Status MyAppStatus `json:"status,omitempty,omitzero"`
}

// CommonStatus returns the address of the conditions and of the observed generation.
func (o *MyApp) CommonStatus() *conditions.Status { return &o.Status.Status }

// MyAppList is a list of MyApp objects.
//
// +kubebuilder:object:root=true
type MyAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MyApp `json:"items"`
}
