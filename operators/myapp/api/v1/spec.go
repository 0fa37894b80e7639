package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MyAppSpec is the desired state of a MyApp. A field that a pod also has means the same as there.
type MyAppSpec struct {
	// Image is the container image to run, for example nginx:1.21. It is a reference as container registries and nodes
	// define it: [registry[:port]/]name[:tag][@digest].
	// +optional
	// +kubebuilder:default="nginx:latest"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="an image reference contains no white space: remove it from spec.image, for example nginx:1.21"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^\\\\s]+$') || self.matches('^(([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="no container image can have that name, and no node would start it: write spec.image as [registry[:port]/]name[:tag][@digest] with a name of lower-case letters and digits, for example nginx:1.21"
	Image string `json:"image,omitempty"`
	// Replicas is the number of pods. If it is not set, the operator creates one pod and then leaves the number to kubectl
	// scale, a HorizontalPodAutoscaler or a user who scales the Deployment. It is required for an autoscaler that targets the
	// MyApp itself, because the API server returns no scale without it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
	// Ports are the ports of the container. Probes and the Ingress use the first one.
	// +optional
	// +kubebuilder:default={{name: http, containerPort: 80, protocol: TCP}}
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.containerPort == p.containerPort && q.protocol == p.protocol))",message="one port is there twice under different names: give each item of spec.ports a containerPort of its own"
	// +listType=map
	// +listMapKey=name
	Ports []Port `json:"ports,omitempty"`
	// Env lists environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom lists ConfigMaps and Secrets with environment variables.
	// +optional
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Resources are the requests and limits of the container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
	// LivenessProbe is the check after whose failure the node restarts the container.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe is the check of whether the container can serve requests.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// ImagePullSecrets lists Secrets with the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ServiceAccountName is the service account of the pods. The default is the service account named default.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// PodTemplate is merged into the pod template of the other fields, with a strategic merge patch as in kubectl patch: lists
	// with named items are merged by name. The container of the image is named app-container. Use it for settings without a
	// field here, such as further containers, volumes, tolerations or a security context.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`
	// Storage is the volume of the app.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitempty,omitzero"`
	// Service configures the Service of the pods. Its name is the name of the MyApp.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty,omitzero"`
	// Ingress configures an Ingress to the Service.
	// +optional
	// +kubebuilder:default={}
	Ingress Ingress `json:"ingress,omitempty,omitzero"`
	// Autoscaling configures a HorizontalPodAutoscaler for the number of pods.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// Strategy is the update strategy of the Deployment. Auto is Recreate if the volume can be mounted by one node only,
	// because the old pod would block the new one forever, and RollingUpdate otherwise.
	// +optional
	// +kubebuilder:default=Auto
	Strategy Strategy `json:"strategy,omitempty"`
	// DeletionPolicy applies to the data when the MyApp is deleted. RetainData keeps the claim, and a new MyApp of the same
	// name adopts it. Delete deletes the claim.
	// +optional
	// +kubebuilder:default=RetainData
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Paused stops the reconciliation of the MyApp and its children, as the annotation homeostat.dev/paused does.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Port is a port of the container.
type Port struct {
	// Name is the name of the port, to which a Service and an Ingress can refer.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.matches('[a-z]')",message="the name of a port has at least one letter, for example http"
	Name string `json:"name"`
	// ContainerPort is the port number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort"`
	// Protocol is the protocol of the port: TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// Storage is the volume of the app: a claim named <name>-data, or an existing claim.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the class of a claim cannot change: leave spec.storage.storageClassName as it was, or make a new MyApp and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.accessModes) == has(oldSelf.accessModes) && (!has(self.accessModes) || self.accessModes == oldSelf.accessModes)",fieldPath=".accessModes",message="the access modes of a claim cannot change: leave spec.storage.accessModes as they were, or make a new MyApp and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) == has(oldSelf.existingClaim) && (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",fieldPath=".existingClaim",message="an app keeps its volume: leave spec.storage.existingClaim as it was, or make a new MyApp"
type Storage struct {
	// Enabled mounts the volume. If it is false, an existing claim is kept until the MyApp is deleted.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// Size is the size of the claim. It can be increased if the storage class allows it, and decreased to the largest size that
	// was granted.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="spec.storage.size must be an amount of storage greater than 0, for example 1Gi or 500M"
	Size string `json:"size,omitempty"`
	// StorageClassName is the storage class of the claim. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AccessModes are the access modes of the claim.
	// +optional
	// +kubebuilder:default={ReadWriteOnce}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadOnlyMany;ReadWriteMany;ReadWriteOncePod
	// +listType=set
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// MountPath is the path of the volume in the container. It hides the files that the image has there.
	// +optional
	// +kubebuilder:default="/usr/share/nginx/html"
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains(':')",message="spec.storage.mountPath must be an absolute path without a colon, for example /data"
	MountPath string `json:"mountPath,omitempty"`
	// ExistingClaim is the name of a claim to mount instead. The operator never changes or deletes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="no claim can have that name: set spec.storage.existingClaim to the name of a PersistentVolumeClaim in the namespace of the MyApp"
	ExistingClaim string `json:"existingClaim,omitempty"`
}

// IsEnabled reports whether the volume is mounted. The default is true.
func (s *Storage) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// Service configures the Service of the pods.
type Service struct {
	// Enabled creates a Service with the name of the MyApp and its ports.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Type is the type of the Service: ClusterIP, NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port is the Service's port for the first port of the container. The default is the port number of the container.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

// Ingress configures an Ingress to the Service.
type Ingress struct {
	// Enabled creates an Ingress with the name of the MyApp.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Host is the host name of the app.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="spec.ingress.host must be a DNS name of lower-case letters, digits, dashes and dots, for example shop.example.com or *.example.com"
	Host string `json:"host,omitempty"`
	// Path is the path of the app on the host. It includes all paths below it.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="spec.ingress.path must begin with a slash"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9/_.~%!&*+,:=@]*$')",message="spec.ingress.path may have letters, digits and the characters - / _ . ~ % ! & * + , : = @ only, because some Ingress controllers write it into their configuration: write others as % and two hexadecimal digits"
	Path string `json:"path,omitempty"`
	// ClassName is the class of the Ingress. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`
	// TLSSecretName is the name of the Secret with the certificate of the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// Autoscaling configures a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",fieldPath=".maxReplicas",message="spec.autoscaling.maxReplicas is less than minReplicas: raise the one or lower the other"
type Autoscaling struct {
	// MinReplicas is the minimum number of pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the maximum number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxReplicas int32 `json:"maxReplicas"`
	// TargetCPUUtilizationPercentage is the average CPU utilization of the pods to reach, in percent of the requested CPU.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}

// Strategy is an update strategy.
//
// +kubebuilder:validation:Enum=Auto;Recreate;RollingUpdate
type Strategy string

// The strategies.
const (
	StrategyAuto          Strategy = "Auto"
	StrategyRecreate      Strategy = "Recreate"
	StrategyRollingUpdate Strategy = "RollingUpdate"
)

// DeletionPolicy is a policy for the data of a deleted MyApp.
//
// +kubebuilder:validation:Enum=Delete;RetainData
type DeletionPolicy string

// The deletion policies.
const (
	DeletionDelete     DeletionPolicy = "Delete"
	DeletionRetainData DeletionPolicy = "RetainData"
)
