package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DBSnapshot creates copies of a database on a schedule, or one copy immediately if it has no schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dbsnapshots,singular=dbsnapshot,shortName=dbsnap,categories=all
// +kubebuilder:printcolumn:name=Schedule,type=string,JSONPath=`.spec.schedule`,description="The schedule of the copies."
// +kubebuilder:printcolumn:name=Last-Success,type=date,JSONPath=`.status.lastSuccessfulTime`,description="The completion time of the last copy."
// +kubebuilder:printcolumn:name=Next,type=string,JSONPath=`.status.nextScheduleTime`,description="The time of the next copy."
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="The summary of the conditions."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || (size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",fieldPath=".metadata",message="metadata.name does not fit the Jobs that are named after it: choose at most 40 lower-case letters, digits and dashes, beginning with a letter"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'volumeSnapshot' || !has(self.spec.pgDump) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.pgDump",message="spec.pgDump is about dumps: remove it, or set spec.method to pgDump"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'pgDump' || !has(self.spec.source.persistentVolumeClaimName) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.source.persistentVolumeClaimName",message="a dump needs a server: name a Database in spec.source.databaseRef or a server in spec.source.postgres, or set spec.method to volumeSnapshot"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'volumeSnapshot' || !has(self.spec.source.postgres) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.source.postgres",message="the volume of a server elsewhere is not known: name a Database in spec.source.databaseRef or a claim in spec.source.persistentVolumeClaimName, or set spec.method to pgDump"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'volumeSnapshot' || self.spec.verify in ['none', 'list'] || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.verify",message="a volume is not restored to be verified: set spec.verify to list or none"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'pgDump' || has(self.spec.storage) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.storage",message="a dump needs a claim to be kept in: set spec.storage.persistentVolumeClaim.claimName, or spec.storage.persistentVolumeClaim.template for one of its own"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'volumeSnapshot' || !has(self.spec.storage) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.storage",message="spec.storage is where dumps are kept: remove it, or set spec.method to pgDump"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.method != 'pgDump' || !has(self.spec.volumeSnapshotClassName) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.volumeSnapshotClassName",message="spec.volumeSnapshotClassName is about VolumeSnapshots: remove it, or set spec.method to volumeSnapshot"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="has(self.spec.schedule) || !(has(self.spec.suspend) && self.spec.suspend) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.suspend",message="spec.suspend is about a schedule: remove it, or set spec.schedule"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || !has(self.spec.storage) || !has(self.spec.storage.persistentVolumeClaim.claimName) || self.spec.storage.persistentVolumeClaim.claimName != self.metadata.name",fieldPath=".metadata",message="metadata.name is that of the claim, so that the retention of the dumps of a Database in it would count and delete these copies: choose another name"
// +operator-sdk:csv:customresourcedefinitions:displayName="DBSnapshot",resources={{Job,v1,""},{PersistentVolumeClaim,v1,""},{VolumeSnapshot,v1,""}}
type DBSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec DBSnapshotSpec `json:"spec"`
	// Status is the observed state. Only the operator writes it.
	// +optional
	Status DBSnapshotStatus `json:"status,omitempty,omitzero"`
}

// CommonStatus returns the common status fields: the conditions and the observed generation.
func (o *DBSnapshot) CommonStatus() *conditions.Status { return &o.Status.Status }

// DBSnapshotList is a list of DBSnapshot objects.
//
// +kubebuilder:object:root=true
type DBSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DBSnapshot `json:"items"`
}

// DBSnapshotSpec is the desired state of a DBSnapshot.
//
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source",fieldPath=".source",message="the copies of one DBSnapshot are those of one database: leave spec.source as it was, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="self.method == oldSelf.method",fieldPath=".method",message="the copies of one DBSnapshot are of one kind: leave spec.method as it was, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(oldSelf.schedule)",fieldPath=".schedule",message="a DBSnapshot without a schedule is done with one copy: make a new DBSnapshot for a schedule, and set spec.suspend to end one"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) || self == oldSelf",message="a DBSnapshot without a schedule cannot change: make a new one"
type DBSnapshotSpec struct {
	// Source is the source of the copies.
	// +required
	Source SnapshotSource `json:"source"`
	// Method is the method of copying. pgDump dumps the server, with mariadb-dump or mysqldump if the source is such a
	// Database. volumeSnapshot creates a VolumeSnapshot of its volume.
	// +optional
	// +kubebuilder:default=pgDump
	Method SnapshotMethod `json:"method,omitempty"`
	// Schedule is the schedule of the copies in cron format: five fields, or a macro such as @hourly. If it is empty, one copy
	// is created immediately.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9*,/A-Za-z?]+( +[-0-9*,/A-Za-z?]+){4})$')",message="spec.schedule must have five fields (minute, hour, day, month, weekday), for example \"0 2 * * *\", or be a macro such as @hourly"
	Schedule string `json:"schedule,omitempty"`
	// TimeZone is the time zone of the schedule, for example Europe/Madrid.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Suspend skips the times of the schedule. Existing copies are kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Immediate creates the first copy immediately, in addition to those of the schedule.
	// +optional
	Immediate bool `json:"immediate,omitempty"`
	// StartingDeadlineSeconds is the maximum delay of a copy's start. A copy that cannot start in this time fails.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=31536000
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`
	// ActiveDeadlineSeconds is the maximum duration of a copy.
	// +optional
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=31536000
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`
	// BackoffLimit is the number of retries of a copy.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// PgDump configures the dumps.
	// +optional
	PgDump *PgDump `json:"pgDump,omitempty"`
	// Storage configures the storage of the dumps.
	// +optional
	Storage *SnapshotStorage `json:"storage,omitempty"`
	// VolumeSnapshotClassName is the class of the VolumeSnapshots. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName *string `json:"volumeSnapshotClassName,omitempty"`
	// Retention is the retention of copies. It is applied after a successful copy, and never to the last successful copy.
	// +optional
	// +kubebuilder:default={}
	Retention SnapshotRetention `json:"retention,omitempty,omitzero"`
	// DeletionPolicy applies to the copies when the DBSnapshot is deleted: Retain or Delete.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
	// Verify is the verification of a copy. none checks the exit code. list reads the copy to its end. restore restores it into
	// a temporary server.
	// +optional
	// +kubebuilder:default=list
	// +kubebuilder:validation:Enum=none;list;restore
	// +kubebuilder:validation:MaxLength=16
	Verify string `json:"verify,omitempty"`
}

// SnapshotDeletionPolicy is a policy for the copies of a deleted DBSnapshot.
//
// +kubebuilder:validation:Enum=Retain;Delete
type SnapshotDeletionPolicy string

// Values of SnapshotDeletionPolicy.
const (
	CopiesRetained SnapshotDeletionPolicy = "Retain"
	CopiesDeleted  SnapshotDeletionPolicy = "Delete"
)

// SnapshotMethod is a method of copying.
//
// +kubebuilder:validation:Enum=pgDump;volumeSnapshot
// +kubebuilder:validation:MaxLength=16
type SnapshotMethod string

// Values of SnapshotMethod.
const (
	MethodDump           SnapshotMethod = "pgDump"
	MethodVolumeSnapshot SnapshotMethod = "volumeSnapshot"
)

// SnapshotSource is the source of copies.
//
// +kubebuilder:validation:XValidation:rule="[has(self.databaseRef), has(self.postgres), has(self.persistentVolumeClaimName)].exists_one(x, x)",message="set exactly one of spec.source.databaseRef, spec.source.postgres and spec.source.persistentVolumeClaimName"
type SnapshotSource struct {
	// DatabaseRef refers to a Database in the same namespace.
	// +optional
	DatabaseRef *DatabaseReference `json:"databaseRef,omitempty"`
	// Postgres is a PostgreSQL server.
	// +optional
	Postgres *PostgresServer `json:"postgres,omitempty"`
	// PersistentVolumeClaimName is the name of a claim in the same namespace, for volumeSnapshot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName,omitempty"`
}

// DatabaseReference refers to a Database.
type DatabaseReference struct {
	// Name is the name of the Database.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PostgresServer is a PostgreSQL server that is not a Database. The user's password must be stored for SCRAM, the default
// since PostgreSQL 14.
//
// +kubebuilder:validation:XValidation:rule="has(self.caSecretRef) == (has(self.sslMode) && self.sslMode.startsWith('verify-'))",message="spec.source.postgres.caSecretRef and sslMode verify-ca or verify-full need each other"
type PostgresServer struct {
	// Host is the host name or the IP address of the server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// Port is the port of the server.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database is the name of the database to dump.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// User is the user that creates the dump.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	User string `json:"user"`
	// PasswordSecretRef is the key of a Secret with the user's password. It is mounted, never read by the operator.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != '' && self.key != ''",message="name the Secret and its key in spec.source.postgres.passwordSecretRef"
	PasswordSecretRef corev1.SecretKeySelector `json:"passwordSecretRef"`
	// SSLMode is the protection of the connection. verify-full checks the certificate and the host name of the server.
	// verify-ca checks the certificate only. The other modes do not authenticate the server.
	// +optional
	// +kubebuilder:default=prefer
	// +kubebuilder:validation:Enum=disable;allow;prefer;require;verify-ca;verify-full
	SSLMode string `json:"sslMode,omitempty"`
	// CASecretRef is the key of a Secret with the certificates, in PEM format, of the authorities that may sign the server's
	// certificate. verify-ca and verify-full need it. It is mounted, never read by the operator.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != '' && self.key != ''",message="name the Secret and its key in spec.source.postgres.caSecretRef"
	CASecretRef *corev1.SecretKeySelector `json:"caSecretRef,omitempty"`
	// Version is the major version of the server. The dump is created with the programs of this version, which must not be
	// older than the server.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,8}([-_.A-Za-z0-9]*)$')",message="spec.source.postgres.version must begin with the number of the version, for example \"16\""
	Version string `json:"version"`
}

// PgDump configures the dumps.
type PgDump struct {
	// Format is the format of the dump: custom, plain or directory. Dumps of MariaDB and MySQL are compressed plain SQL.
	// +optional
	// +kubebuilder:default=custom
	// +kubebuilder:validation:Enum=custom;plain;directory
	Format string `json:"format,omitempty"`
	// Compression is the compression level, from 0 for none to 9.
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Compression *int32 `json:"compression,omitempty"`
	// IncludeGlobals adds the roles and tablespaces of the server, without passwords, in a file beside the dump.
	// +optional
	IncludeGlobals bool `json:"includeGlobals,omitempty"`
	// Image is an image reference that replaces the one derived from engine and version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="an image reference contains no white space: remove it from spec.pgDump.image"
	Image string `json:"image,omitempty"`
	// Resources are the requests and limits of the container that creates the dump.
	// +optional
	// +kubebuilder:default={requests: {cpu: "100m", memory: "128Mi"}, limits: {memory: "512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
}

// SnapshotStorage configures the storage of the dumps.
type SnapshotStorage struct {
	// PersistentVolumeClaim configures the claim of the dumps.
	// +required
	PersistentVolumeClaim SnapshotClaim `json:"persistentVolumeClaim"`
}

// SnapshotClaim is an existing claim, or the DBSnapshot's own claim <name>-snapshots.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (has(self.template) || !has(self.claimName) || !has(oldSelf.claimName) || self.claimName == oldSelf.claimName)",message="the copies of one DBSnapshot are in one claim: leave spec.storage.persistentVolumeClaim as it was but for template.size, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.claimName) != has(self.template)",message="set exactly one of spec.storage.persistentVolumeClaim.claimName and spec.storage.persistentVolumeClaim.template"
type SnapshotClaim struct {
	// ClaimName is the name of an existing claim in the same namespace. The operator never changes or deletes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// Template is the template of the DBSnapshot's own claim.
	// +optional
	Template *ClaimTemplate `json:"template,omitempty"`
}

// ClaimTemplate is the template of a claim.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the class of a claim cannot change: leave storageClassName as it was, or make a new DBSnapshot"
type ClaimTemplate struct {
	// Size is the size of the claim. It can be increased.
	// +required
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="the size of the claim must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Size string `json:"size"`
	// StorageClassName is the storage class of the claim at its creation. The default is the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// SnapshotRetention is the retention of copies.
type SnapshotRetention struct {
	// KeepLast is the maximum number of successful copies.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	KeepLast int32 `json:"keepLast,omitempty"`
	// MaxAge is the age at which a copy is deleted even if there are no more than keepLast, for example 720h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="spec.retention.maxAge must be a duration greater than 0, for example 720h or 36h30m"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// KeepFailed is the number of failed attempts that are kept for inspection.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	KeepFailed *int32 `json:"keepFailed,omitempty"`
}
