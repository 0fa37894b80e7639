package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabaseSpec says what server to run, and how its data are kept.
//
// +kubebuilder:validation:XValidation:rule="self.engine == oldSelf.engine",fieldPath=".engine",message="no server reads the data of another engine: leave spec.engine as it was, or make a new Database and copy the data with the engines' own tools"
// +kubebuilder:validation:XValidation:rule="self.version == oldSelf.version || !self.version.matches('^[0-9]{1,8}([-_.A-Za-z]|$)') || !oldSelf.version.matches('^[0-9]{1,8}([-_.A-Za-z]|$)') || int(self.version.find('^[0-9]+')) == int(oldSelf.version.find('^[0-9]+'))",fieldPath=".version",message="the data of another major version cannot be read: leave the major version in spec.version as it was, or make a new Database of that version with spec.bootstrapFrom"
// +kubebuilder:validation:XValidation:rule="self.engine == 'postgresql' || self.version == oldSelf.version || !self.version.matches('^[0-9]{1,8}[.][0-9]{1,8}([-_.A-Za-z]|$)') || !oldSelf.version.matches('^[0-9]{1,8}[.][0-9]{1,8}([-_.A-Za-z]|$)') || int(self.version.find('[.][0-9]+').substring(1)) >= int(oldSelf.version.find('[.][0-9]+').substring(1))",fieldPath=".version",message="a server does not read the data of a later release series: go back no further than the series in spec.version, or make a new Database with spec.bootstrapFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(oldSelf.replicas) || self.replicas == oldSelf.replicas || (has(self.hibernate) && self.hibernate) == (has(oldSelf.hibernate) && oldSelf.hibernate)",fieldPath=".hibernate",message="change spec.hibernate and spec.replicas one after the other, so that it is clear how many members had the data"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the class of a claim cannot change: leave spec.storageClassName as it was, or make a new Database with spec.bootstrapFrom"
// +kubebuilder:validation:XValidation:rule="has(self.databaseName) == has(oldSelf.databaseName) && (!has(self.databaseName) || self.databaseName == oldSelf.databaseName)",fieldPath=".databaseName",message="the database has its name for good: leave spec.databaseName as it was, and make further databases in SQL"
// +kubebuilder:validation:XValidation:rule="has(self.username) == has(oldSelf.username) && (!has(self.username) || self.username == oldSelf.username)",fieldPath=".username",message="the owner of the database has its name for good: leave spec.username as it was, and make further users in SQL"
// +kubebuilder:validation:XValidation:rule="has(self.bootstrapFrom) == has(oldSelf.bootstrapFrom) && (!has(self.bootstrapFrom) || self.bootstrapFrom == oldSelf.bootstrapFrom)",fieldPath=".bootstrapFrom",message="a database begins once: leave spec.bootstrapFrom as it was, or make a new Database"
type DatabaseSpec struct {
	// Engine is the database server: postgresql, mysql or mariadb.
	// +required
	Engine Engine `json:"engine"`
	// Version is that of the server, and the tag of its image, for example "16" or "16.4-bookworm". Releases of the same
	// major version may be changed for one another.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,8}([.][0-9]{1,8}){0,3}([-_.A-Za-z][-A-Za-z0-9._]*)?$')",message="spec.version must begin with the number of the version, as \"16\" or \"10.11-noble\" do, so that the server that runs is known and stays the same"
	Version string `json:"version"`
	// Storage is how large the volume of each member is, for example 100Gi. It may grow, if the class allows it; what no
	// member was granted yet may be taken back.
	// +required
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="spec.storage must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Storage string `json:"storage"`
	// Replicas is how many members there are: the primary, and the replicas that follow it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas *int32 `json:"replicas,omitempty"`
	// BackupEnabled has dumps made on time, as spec.backup says.
	// +optional
	// +kubebuilder:default=true
	BackupEnabled *bool `json:"backupEnabled,omitempty"`

	// Image is a whole image reference to use in place of the one that follows from engine and version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="an image reference contains no white space: remove it from spec.image"
	Image string `json:"image,omitempty"`
	// ImagePullPolicy is when the image is pulled. The default is that of Kubernetes.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets name the Secrets that hold the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// StorageClassName is the class of the claims. The default is the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Resources are the requests and limits of the server.
	// +optional
	// +kubebuilder:default={requests: {cpu: "100m", memory: "256Mi"}, limits: {cpu: "500m", memory: "1Gi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
	// DatabaseName is the database that is made.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$') && !(self in ['postgres', 'template0', 'template1', 'mysql', 'sys', 'performance_schema', 'information_schema'])",message="the name of the database must consist of lower-case letters, digits and underscores, begin with no digit, and not be one that the server has itself"
	DatabaseName string `json:"databaseName,omitempty"`
	// Username is the owner of the database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$') && !self.startsWith('pg_') && !(self in ['postgres', 'replication', 'root', 'mysql', 'public', 'none'])",message="the name of the owner must consist of lower-case letters, digits and underscores, begin with no digit, and not be one that the server has itself"
	Username string `json:"username,omitempty"`
	// CredentialsSecretRef names a Secret of yours with the password of the owner, in the key password. Without it a password
	// is made once, in the Secret <name>-db-credentials.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// Configuration is settings of the server by their names, for example max_connections. A change restarts the members
	// one after the other, the primary last.
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z][-A-Za-z0-9_.]*$'))",message="the name of a setting in spec.configuration must consist of letters, digits, dashes, dots and underscores"
	Configuration map[string]Setting `json:"configuration,omitempty"`
	// Service is how the members are reached.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty,omitzero"`
	// PodTemplate is where and how the pods run.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
	// Backup is when dumps are made, and how long they are kept.
	// +optional
	// +kubebuilder:default={}
	Backup Backup `json:"backup,omitempty,omitzero"`
	// PersistentVolumeClaimRetentionPolicy says what becomes of the claims of members that are no more.
	// +optional
	// +kubebuilder:default={}
	PersistentVolumeClaimRetentionPolicy ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty,omitzero"`
	// DeletionPolicy says what becomes of the data when the Database is deleted. Retain: the claims and the credentials stay,
	// and a Database of the same name takes them over. Snapshot: a last dump is made, which stays, and then the rest goes.
	// Delete: nothing stays.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// DeletionProtection has the deletion of the Database and of its claims refused.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
	// BootstrapFrom is where the data come from that the database begins with. Without it, it begins empty.
	// +optional
	BootstrapFrom *BootstrapFrom `json:"bootstrapFrom,omitempty"`
	// Paused makes the operator leave the Database and what belongs to it alone, as the annotation homeostat.dev/paused does.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Hibernate ends all pods and keeps everything else, until it is false again.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`
	// UpgradePolicy says what happens when the pods are to change. Auto: they are replaced one after the other, the primary
	// last. OnDelete: each changes after a user deletes it.
	// +optional
	// +kubebuilder:default=Auto
	UpgradePolicy UpgradePolicy `json:"upgradePolicy,omitempty"`
}

// Engine is a database server.
//
// +kubebuilder:validation:Enum=postgresql;mysql;mariadb
// +kubebuilder:validation:MaxLength=16
type Engine string

// Values of Engine.
const (
	PostgreSQL Engine = "postgresql"
	MySQL      Engine = "mysql"
	MariaDB    Engine = "mariadb"
)

// Setting is the value of a setting of the server.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="!self.contains('\\n') && !self.contains('\\r')",message="the value of a setting has one line"
type Setting string

// SecretReference names a Secret in the namespace of the object.
type SecretReference struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Service is how the members are reached.
type Service struct {
	// Type of the Services of the primary and of the replicas: ClusterIP, NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations of these Services, for example for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PodTemplate is where and how the pods run. The fields mean what they mean in a pod.
type PodTemplate struct {
	// Annotations of the pods, those of dumps and restores among them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// NodeSelector is what labels a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are which taints of nodes do not matter.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity is which nodes are suitable, also for dumps and restores. The default prefers nodes without another member.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints are how the members are spread. They are not for dumps and restores.
	// +optional
	// +listType=atomic
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// SecurityContext is the identity of the processes. The default is the user 999 of the Debian images, restricted; those of
	// Alpine need runAsUser and fsGroup 70.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
	// PriorityClassName is how important the pods are.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// TerminationGracePeriodSeconds is how long a server may take to shut down.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Backup is when dumps are made, and how long they are kept.
type Backup struct {
	// Schedule is when, in the format of cron. A time that passes while a dump is being made is skipped; one that takes longer
	// than 24 hours has failed.
	// +optional
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9*,/A-Za-z?]+( +[-0-9*,/A-Za-z?]+){4})$')",message="spec.backup.schedule must have five fields (minute, hour, day, month, weekday), for example \"0 2 * * *\", or be a macro such as @daily"
	Schedule string `json:"schedule,omitempty"`
	// TimeZone is that of the schedule, for example Europe/Madrid.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Retention is how long these dumps are kept, independently of other files in their claim. It is applied after a dump
	// that was verified, and never to the newest.
	// +optional
	// +kubebuilder:default={}
	Retention BackupRetention `json:"retention,omitempty,omitzero"`
	// Storage is the claim of the dumps, <name>-db-backup.
	// +optional
	// +kubebuilder:default={}
	Storage BackupStorage `json:"storage,omitempty,omitzero"`
	// Suspend skips the times of the schedule, and keeps everything else.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// BackupRetention is how long dumps are kept.
type BackupRetention struct {
	// Count is how many dumps are kept.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count,omitempty"`
	// MaxAge is after what time a dump goes although there are no more than count, for example 720h.
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// BackupStorage is the claim of the dumps.
type BackupStorage struct {
	// Size of the claim. The default is that of spec.storage, with which it grows.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="spec.backup.storage.size must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Size string `json:"size,omitempty"`
	// StorageClassName is the class of the claim when it is made. The default is that of the members.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ClaimRetentionPolicy says what becomes of the claims of members that are no more.
type ClaimRetentionPolicy struct {
	// WhenScaled: Retain keeps the claims of members above spec.replicas, Delete ends them with their members. They stay while
	// spec.deletionProtection is true.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenScaled string `json:"whenScaled,omitempty"`
}

// DeletionPolicy is what becomes of the data of a Database that is deleted.
//
// +kubebuilder:validation:Enum=Retain;Snapshot;Delete
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	DeletionRetain   DeletionPolicy = "Retain"
	DeletionSnapshot DeletionPolicy = "Snapshot"
	DeletionDelete   DeletionPolicy = "Delete"
)

// UpgradePolicy is what happens when the pods are to change.
//
// +kubebuilder:validation:Enum=Auto;OnDelete
type UpgradePolicy string

// Values of UpgradePolicy.
const (
	UpgradeAuto     UpgradePolicy = "Auto"
	UpgradeOnDelete UpgradePolicy = "OnDelete"
)

// BootstrapFrom is where the data come from that a database begins with.
//
// +kubebuilder:validation:XValidation:rule="has(self.snapshotRef) != has(self.backupRef)",message="set exactly one of spec.bootstrapFrom.snapshotRef and spec.bootstrapFrom.backupRef"
type BootstrapFrom struct {
	// SnapshotRef names a DBSnapshot.
	// +optional
	SnapshotRef *SnapshotReference `json:"snapshotRef,omitempty"`
	// BackupRef names the claim of the dumps of a Database.
	// +optional
	BackupRef *BackupReference `json:"backupRef,omitempty"`
}

// SnapshotReference names one of the copies of a DBSnapshot.
type SnapshotReference struct {
	// Name of the DBSnapshot, in the namespace of the Database.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="no DBSnapshot can have that name: write the name of one in the namespace of the Database, without its namespace"
	Name string `json:"name"`
	// Snapshot is the name of one in its status.history. The default is the last that succeeded.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot,omitempty"`
}

// BackupReference names one of the dumps in a claim.
type BackupReference struct {
	// ClaimName is the claim of the dumps, for example orders-db-backup, in the namespace of the Database.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// Name is the name of the dump. The default is the newest.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="spec.bootstrapFrom.backupRef.name is the name of a file without a path, for example 20260131T020000Z"
	Name string `json:"name,omitempty"`
}
