package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MyAppSpec says what to run and what belongs to it. Fields that a pod has too mean what they mean there.
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
	// Replicas is how many pods run. If it is not set, the operator starts one, and afterwards leaves the number to
	// kubectl scale, a HorizontalPodAutoscaler or a user who scales the Deployment. For an autoscaler that targets the
	// MyApp itself it has to be set: the API server returns no scale without it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
	// Ports are the ports that the container listens on. The first one is that of probes and of the Ingress.
	// +optional
	// +kubebuilder:default={{name: http, containerPort: 80, protocol: TCP}}
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.containerPort == p.containerPort && q.protocol == p.protocol))",message="one port is there twice under different names: give each item of spec.ports a containerPort of its own"
	// +listType=map
	// +listMapKey=name
	Ports []Port `json:"ports,omitempty"`
	// Env are environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom takes environment variables from ConfigMaps and Secrets.
	// +optional
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Resources are the requests and limits of the container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
	// LivenessProbe tells the node when to restart the container.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe tells whether the container can serve.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// ImagePullSecrets name the Secrets that hold the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ServiceAccountName is the identity of the container towards the API server. The default is the namespace's
	// service account called default.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// PodTemplate is merged over the pod template that the other fields make, as kubectl patch does: lists whose items
	// have a name are merged by name. The container of the image is called app-container. It is for settings
	// without a field here, such as more containers, volumes, tolerations or a security context.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`
	// Storage is the volume of the app.
	// +optional
	// +kubebuilder:default={}
	Storage Storage `json:"storage,omitempty,omitzero"`
	// Service gives the pods a name inside the cluster, that of the MyApp.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty,omitzero"`
	// Ingress leads to the Service from outside the cluster.
	// +optional
	// +kubebuilder:default={}
	Ingress Ingress `json:"ingress,omitempty,omitzero"`
	// Autoscaling has a HorizontalPodAutoscaler decide how many pods run.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// Strategy says how new pods take the place of old ones. Auto: Recreate if a volume is mounted that one node alone
	// can mount, because the old pod would keep it from the new one for ever, and RollingUpdate otherwise.
	// +optional
	// +kubebuilder:default=Auto
	Strategy Strategy `json:"strategy,omitempty"`
	// DeletionPolicy says what becomes of the data when the MyApp is deleted. RetainData: the claim stays, and a MyApp of
	// the same name takes it over. Delete: it goes too.
	// +optional
	// +kubebuilder:default=RetainData
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Paused makes the operator leave the MyApp and what belongs to it alone, as the annotation homeostat.dev/paused does.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Port is one that the container listens on.
type Port struct {
	// Name of the port, as a Service and an Ingress may refer to it.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.matches('[a-z]')",message="the name of a port has at least one letter, for example http"
	Name string `json:"name"`
	// ContainerPort is its number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ContainerPort int32 `json:"containerPort"`
	// Protocol is TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// Storage is the volume of the app: a claim called <name>-data, or one that exists.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the class of a claim cannot change: leave spec.storage.storageClassName as it was, or make a new MyApp and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.accessModes) == has(oldSelf.accessModes) && (!has(self.accessModes) || self.accessModes == oldSelf.accessModes)",fieldPath=".accessModes",message="the access modes of a claim cannot change: leave spec.storage.accessModes as they were, or make a new MyApp and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.existingClaim) == has(oldSelf.existingClaim) && (!has(self.existingClaim) || self.existingClaim == oldSelf.existingClaim)",fieldPath=".existingClaim",message="an app keeps its volume: leave spec.storage.existingClaim as it was, or make a new MyApp"
type Storage struct {
	// Enabled mounts the volume. Without it the data of a claim that exists is kept until the MyApp is deleted.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// Size of the claim. It may grow, if its class allows it, and become smaller as long as it was not granted.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="spec.storage.size must be an amount of storage greater than 0, for example 1Gi or 500M"
	Size string `json:"size,omitempty"`
	// StorageClassName is the class of the claim. The default is the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// AccessModes of the claim.
	// +optional
	// +kubebuilder:default={ReadWriteOnce}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOnce;ReadOnlyMany;ReadWriteMany;ReadWriteOncePod
	// +listType=set
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// MountPath is where the volume is in the container. What the image has there is not seen.
	// +optional
	// +kubebuilder:default="/usr/share/nginx/html"
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains(':')",message="spec.storage.mountPath must be an absolute path without a colon, for example /data"
	MountPath string `json:"mountPath,omitempty"`
	// ExistingClaim names a claim, which the operator does not manage, to mount instead. It is never changed or deleted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="no claim can have that name: set spec.storage.existingClaim to the name of a PersistentVolumeClaim in the namespace of the MyApp"
	ExistingClaim string `json:"existingClaim,omitempty"`
}

// IsEnabled reports whether the volume is mounted. The default is true.
func (s *Storage) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// Service is how the pods are reached inside the cluster.
type Service struct {
	// Enabled makes a Service with the name of the MyApp and its ports.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Type is ClusterIP, NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port is that of the Service for the first port of the container. The default is the same number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

// Ingress is how the app is reached from outside the cluster.
type Ingress struct {
	// Enabled makes an Ingress with the name of the MyApp.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Host is the name by which clients ask for the app.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="spec.ingress.host must be a DNS name of lower-case letters, digits, dashes and dots, for example shop.example.com or *.example.com"
	Host string `json:"host,omitempty"`
	// Path of the app on that host, and of all below it.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="spec.ingress.path must begin with a slash"
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9/_.~%!&*+,:=@]*$')",message="spec.ingress.path may have letters, digits and the characters - / _ . ~ % ! & * + , : = @ only, because some Ingress controllers write it into their configuration: write others as % and two hexadecimal digits"
	Path string `json:"path,omitempty"`
	// ClassName is the class of the Ingress. The default is the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`
	// TLSSecretName names the Secret with the certificate of the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// Autoscaling is how many pods run, by what they are used.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",fieldPath=".maxReplicas",message="spec.autoscaling.maxReplicas is less than minReplicas: raise the one or lower the other"
type Autoscaling struct {
	// MinReplicas is how many pods run at least.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is how many pods run at most.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxReplicas int32 `json:"maxReplicas"`
	// TargetCPUUtilizationPercentage is the share of the requested CPU that the pods are to use.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage int32 `json:"targetCPUUtilizationPercentage,omitempty"`
}

// Strategy is how new pods take the place of old ones.
//
// +kubebuilder:validation:Enum=Auto;Recreate;RollingUpdate
type Strategy string

// The strategies.
const (
	StrategyAuto          Strategy = "Auto"
	StrategyRecreate      Strategy = "Recreate"
	StrategyRollingUpdate Strategy = "RollingUpdate"
)

// DeletionPolicy is what becomes of the data of a MyApp that is deleted.
//
// +kubebuilder:validation:Enum=Delete;RetainData
type DeletionPolicy string

// The deletion policies.
const (
	DeletionDelete     DeletionPolicy = "Delete"
	DeletionRetainData DeletionPolicy = "RetainData"
)
