package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabaseSpec is the desired state of a Database.
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
	// Version is the version of the server and the tag of its image, for example "16" or "16.4-bookworm". It can be changed to
	// another release of the same major version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,8}([.][0-9]{1,8}){0,3}([-_.A-Za-z][-A-Za-z0-9._]*)?$')",message="spec.version must begin with the number of the version, as \"16\" or \"10.11-noble\" do, so that the server that runs is known and stays the same"
	Version string `json:"version"`
	// Storage is the size of the volume of each member, for example 100Gi. It can be increased if the storage class allows it.
	// An increase that was not granted to any member can be reverted.
	// +required
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="spec.storage must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Storage string `json:"storage"`
	// Replicas is the number of members: the primary and its replicas.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas *int32 `json:"replicas,omitempty"`
	// BackupEnabled creates dumps on the schedule of spec.backup.
	// +optional
	// +kubebuilder:default=true
	BackupEnabled *bool `json:"backupEnabled,omitempty"`

	// Image is an image reference that replaces the one derived from engine and version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="an image reference contains no white space: remove it from spec.image"
	Image string `json:"image,omitempty"`
	// ImagePullPolicy is the policy for pulling the image. The default is that of Kubernetes.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets lists Secrets with the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// StorageClassName is the storage class of the claims. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Resources are the requests and limits of the server.
	// +optional
	// +kubebuilder:default={requests: {cpu: "100m", memory: "256Mi"}, limits: {cpu: "500m", memory: "1Gi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
	// DatabaseName is the name of the database that is created.
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
	// CredentialsSecretRef refers to an existing Secret with the password of the owner in the key password. By default, a
	// password is generated once and stored in the Secret <name>-db-credentials.
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`
	// Configuration sets settings of the server by their names, for example max_connections. A change restarts the members one
	// after the other, the primary last.
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z][-A-Za-z0-9_.]*$'))",message="the name of a setting in spec.configuration must consist of letters, digits, dashes, dots and underscores"
	Configuration map[string]Setting `json:"configuration,omitempty"`
	// Service configures the Services of the members.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty,omitzero"`
	// PodTemplate has the scheduling and security settings of the pods. The fields mean the same as in a pod.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`
	// Backup configures the schedule and the retention of dumps.
	// +optional
	// +kubebuilder:default={}
	Backup Backup `json:"backup,omitempty,omitzero"`
	// PersistentVolumeClaimRetentionPolicy is the policy for the claims of removed members.
	// +optional
	// +kubebuilder:default={}
	PersistentVolumeClaimRetentionPolicy ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty,omitzero"`
	// DeletionPolicy applies to the data when the Database is deleted. Retain keeps the claims and the credentials, and a new
	// Database of the same name adopts them. Snapshot creates a last dump and keeps it, and deletes everything else. Delete
	// deletes everything.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// DeletionProtection rejects the deletion of the Database and of its claims.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
	// BootstrapFrom is the source of the initial data. By default, the database is empty.
	// +optional
	BootstrapFrom *BootstrapFrom `json:"bootstrapFrom,omitempty"`
	// Paused stops the reconciliation of the Database and its children, as the annotation homeostat.dev/paused does.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Hibernate removes all pods and keeps everything else, until it is false again.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`
	// UpgradePolicy applies to changes of the pods. Auto replaces the pods one after the other, the primary last. OnDelete
	// replaces each pod after a user has deleted it.
	// +optional
	// +kubebuilder:default=Auto
	UpgradePolicy UpgradePolicy `json:"upgradePolicy,omitempty"`
}

// Engine is the kind of the database server.
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

// SecretReference refers to a Secret in the namespace of the object.
type SecretReference struct {
	// Name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Service configures the Services of the members.
type Service struct {
	// Type is the type of the Services of the primary and of the replicas: ClusterIP, NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations are annotations of these Services, for example for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PodTemplate has the scheduling and security settings of the pods. The fields mean the same as in a pod.
type PodTemplate struct {
	// Annotations are annotations of the pods, including those of dumps and restores.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// NodeSelector selects the nodes by their labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations allow the pods on nodes with matching taints.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity are the scheduling constraints of the pods, including those of dumps and restores. The default prefers nodes
	// without another member.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints spread the members. They do not apply to dumps and restores.
	// +optional
	// +listType=atomic
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// SecurityContext is the security context of the pods. The default is user 999, that of the Debian images, with restricted
	// permissions. Alpine images need the value 70 for runAsUser and fsGroup.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
	// PriorityClassName is the priority class of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// TerminationGracePeriodSeconds is the maximum time of a server's shutdown.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Backup configures the schedule and the retention of dumps.
type Backup struct {
	// Schedule is the schedule of the dumps in cron format. A time that passes during a dump is skipped. A dump that takes more
	// than 24 hours fails.
	// +optional
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9*,/A-Za-z?]+( +[-0-9*,/A-Za-z?]+){4})$')",message="spec.backup.schedule must have five fields (minute, hour, day, month, weekday), for example \"0 2 * * *\", or be a macro such as @daily"
	Schedule string `json:"schedule,omitempty"`
	// TimeZone is the time zone of the schedule, for example Europe/Madrid.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Retention is the retention of these dumps. It does not apply to other files in their claim. It is applied after a
	// verified dump, and never to the newest dump.
	// +optional
	// +kubebuilder:default={}
	Retention BackupRetention `json:"retention,omitempty,omitzero"`
	// Storage configures the claim of the dumps, <name>-db-backup.
	// +optional
	// +kubebuilder:default={}
	Storage BackupStorage `json:"storage,omitempty,omitzero"`
	// Suspend skips the times of the schedule. Existing dumps are kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// BackupRetention is the retention of dumps.
type BackupRetention struct {
	// Count is the maximum number of dumps.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count,omitempty"`
	// MaxAge is the age at which a dump is deleted even if there are no more than count, for example 720h.
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// BackupStorage configures the claim of the dumps.
type BackupStorage struct {
	// Size is the size of the claim. The default is spec.storage, and it grows with it.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="spec.backup.storage.size must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Size string `json:"size,omitempty"`
	// StorageClassName is the storage class of the claim at its creation. The default is that of the members.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ClaimRetentionPolicy is the policy for the claims of removed members.
type ClaimRetentionPolicy struct {
	// WhenScaled applies to the claims of members above spec.replicas. Retain keeps them. Delete deletes them with their
	// members, unless spec.deletionProtection is true.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenScaled string `json:"whenScaled,omitempty"`
}

// DeletionPolicy is a policy for the data of a deleted Database.
//
// +kubebuilder:validation:Enum=Retain;Snapshot;Delete
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	DeletionRetain   DeletionPolicy = "Retain"
	DeletionSnapshot DeletionPolicy = "Snapshot"
	DeletionDelete   DeletionPolicy = "Delete"
)

// UpgradePolicy is a policy for changes of the pods.
//
// +kubebuilder:validation:Enum=Auto;OnDelete
type UpgradePolicy string

// Values of UpgradePolicy.
const (
	UpgradeAuto     UpgradePolicy = "Auto"
	UpgradeOnDelete UpgradePolicy = "OnDelete"
)

// BootstrapFrom is the source of the initial data of a database.
//
// +kubebuilder:validation:XValidation:rule="has(self.snapshotRef) != has(self.backupRef)",message="set exactly one of spec.bootstrapFrom.snapshotRef and spec.bootstrapFrom.backupRef"
type BootstrapFrom struct {
	// SnapshotRef refers to a DBSnapshot.
	// +optional
	SnapshotRef *SnapshotReference `json:"snapshotRef,omitempty"`
	// BackupRef refers to the claim of the dumps of a Database.
	// +optional
	BackupRef *BackupReference `json:"backupRef,omitempty"`
}

// SnapshotReference refers to a copy of a DBSnapshot.
type SnapshotReference struct {
	// Name is the name of the DBSnapshot in the namespace of the Database.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="no DBSnapshot can have that name: write the name of one in the namespace of the Database, without its namespace"
	Name string `json:"name"`
	// Snapshot is the name of a copy in its status.history. The default is the last successful copy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Snapshot string `json:"snapshot,omitempty"`
}

// BackupReference refers to a dump in a claim.
type BackupReference struct {
	// ClaimName is the name of the claim in the namespace of the Database, for example orders-db-backup.
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
