package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DBSnapshot is copies of a database that are made on time, or one that is made at once if there is no schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dbsnapshots,singular=dbsnapshot,shortName=dbsnap,categories=all
// +kubebuilder:printcolumn:name=Schedule,type=string,JSONPath=`.spec.schedule`,description="When copies are made."
// +kubebuilder:printcolumn:name=Last-Success,type=date,JSONPath=`.status.lastSuccessfulTime`,description="When the last copy was finished."
// +kubebuilder:printcolumn:name=Next,type=string,JSONPath=`.status.nextScheduleTime`,description="When the next copy is due."
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`,description="What is going on, in one word."
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

	// Spec says of what copies are made, how and when.
	// +required
	Spec DBSnapshotSpec `json:"spec"`
	// Status says what copies there are. Only the operator writes it.
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

// DBSnapshotSpec says of what copies are made, how and when.
//
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source",fieldPath=".source",message="the copies of one DBSnapshot are those of one database: leave spec.source as it was, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="self.method == oldSelf.method",fieldPath=".method",message="the copies of one DBSnapshot are of one kind: leave spec.method as it was, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(oldSelf.schedule)",fieldPath=".schedule",message="a DBSnapshot without a schedule is done with one copy: make a new DBSnapshot for a schedule, and set spec.suspend to end one"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) || self == oldSelf",message="a DBSnapshot without a schedule cannot change: make a new one"
type DBSnapshotSpec struct {
	// Source is what is copied.
	// +required
	Source SnapshotSource `json:"source"`
	// Method is how. pgDump: by a dump of the server, which is mariadb-dump or mysqldump where the source is such a Database.
	// volumeSnapshot: by a VolumeSnapshot of its volume.
	// +optional
	// +kubebuilder:default=pgDump
	Method SnapshotMethod `json:"method,omitempty"`
	// Schedule is when, in the format of cron: five fields, or a macro such as @hourly. Without it one copy is made at once.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9*,/A-Za-z?]+( +[-0-9*,/A-Za-z?]+){4})$')",message="spec.schedule must have five fields (minute, hour, day, month, weekday), for example \"0 2 * * *\", or be a macro such as @hourly"
	Schedule string `json:"schedule,omitempty"`
	// TimeZone is that of the schedule, for example Europe/Madrid.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Suspend skips the times of the schedule, and keeps everything else.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Immediate has the first copy made at once, beside those of the schedule.
	// +optional
	Immediate bool `json:"immediate,omitempty"`
	// StartingDeadlineSeconds is how late a copy may begin. One that cannot until then has failed.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=31536000
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`
	// ActiveDeadlineSeconds is how long one may take.
	// +optional
	// +kubebuilder:default=7200
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=31536000
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`
	// BackoffLimit is how often one is tried again.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// PgDump is what of the server is dumped, and how.
	// +optional
	PgDump *PgDump `json:"pgDump,omitempty"`
	// Storage is where dumps are kept.
	// +optional
	Storage *SnapshotStorage `json:"storage,omitempty"`
	// VolumeSnapshotClassName is the class of the VolumeSnapshots. The default is the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName *string `json:"volumeSnapshotClassName,omitempty"`
	// Retention is how long copies are kept. It is applied after one that succeeded, and never to the last good one.
	// +optional
	// +kubebuilder:default={}
	Retention SnapshotRetention `json:"retention,omitempty,omitzero"`
	// DeletionPolicy says what becomes of the copies when the DBSnapshot is deleted: Retain or Delete.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy SnapshotDeletionPolicy `json:"deletionPolicy,omitempty"`
	// Verify says how a copy is verified before it counts. none: by the exit code. list: it is read to its end. restore: it is
	// restored into a server that is thrown away.
	// +optional
	// +kubebuilder:default=list
	// +kubebuilder:validation:Enum=none;list;restore
	// +kubebuilder:validation:MaxLength=16
	Verify string `json:"verify,omitempty"`
}

// SnapshotDeletionPolicy is what becomes of the copies of a DBSnapshot that is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type SnapshotDeletionPolicy string

// Values of SnapshotDeletionPolicy.
const (
	CopiesRetained SnapshotDeletionPolicy = "Retain"
	CopiesDeleted  SnapshotDeletionPolicy = "Delete"
)

// SnapshotMethod is how copies are made.
//
// +kubebuilder:validation:Enum=pgDump;volumeSnapshot
// +kubebuilder:validation:MaxLength=16
type SnapshotMethod string

// Values of SnapshotMethod.
const (
	MethodDump           SnapshotMethod = "pgDump"
	MethodVolumeSnapshot SnapshotMethod = "volumeSnapshot"
)

// SnapshotSource is what is copied.
//
// +kubebuilder:validation:XValidation:rule="[has(self.databaseRef), has(self.postgres), has(self.persistentVolumeClaimName)].exists_one(x, x)",message="set exactly one of spec.source.databaseRef, spec.source.postgres and spec.source.persistentVolumeClaimName"
type SnapshotSource struct {
	// DatabaseRef names a Database in the same namespace.
	// +optional
	DatabaseRef *DatabaseReference `json:"databaseRef,omitempty"`
	// Postgres is any PostgreSQL server.
	// +optional
	Postgres *PostgresServer `json:"postgres,omitempty"`
	// PersistentVolumeClaimName names a claim in the same namespace, for volumeSnapshot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName,omitempty"`
}

// DatabaseReference names a Database.
type DatabaseReference struct {
	// Name of the Database.
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
	// Host is its address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// Port is its port.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Database is what is dumped.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Database string `json:"database"`
	// User is who dumps it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	User string `json:"user"`
	// PasswordSecretRef is the key of a Secret with the user's password. It is mounted, never read by the operator.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != '' && self.key != ''",message="name the Secret and its key in spec.source.postgres.passwordSecretRef"
	PasswordSecretRef corev1.SecretKeySelector `json:"passwordSecretRef"`
	// SSLMode is how the connection is protected: verify-full checks the certificate and the name of the server, verify-ca only
	// the certificate, and the others do not check who the server is.
	// +optional
	// +kubebuilder:default=prefer
	// +kubebuilder:validation:Enum=disable;allow;prefer;require;verify-ca;verify-full
	SSLMode string `json:"sslMode,omitempty"`
	// CASecretRef is the key of a Secret with the certificates, in PEM format, of the authorities that may sign the server's
	// certificate. verify-ca and verify-full need it. It is mounted, never read by the operator.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != '' && self.key != ''",message="name the Secret and its key in spec.source.postgres.caSecretRef"
	CASecretRef *corev1.SecretKeySelector `json:"caSecretRef,omitempty"`
	// Version is the major version of the server, whose programs make the dump: they must not be older than the server.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,8}([-_.A-Za-z0-9]*)$')",message="spec.source.postgres.version must begin with the number of the version, for example \"16\""
	Version string `json:"version"`
}

// PgDump is what of the server is dumped, and how.
type PgDump struct {
	// Format of the dump: custom, plain or directory. Dumps of MariaDB and MySQL are plain SQL, compressed.
	// +optional
	// +kubebuilder:default=custom
	// +kubebuilder:validation:Enum=custom;plain;directory
	Format string `json:"format,omitempty"`
	// Compression is from 0, none, to 9.
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Compression *int32 `json:"compression,omitempty"`
	// IncludeGlobals adds the roles and tablespaces of the server, without passwords, in a file beside the dump.
	// +optional
	IncludeGlobals bool `json:"includeGlobals,omitempty"`
	// Image is a whole image reference to use in place of the one that follows from engine and version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s]+$')",message="an image reference contains no white space: remove it from spec.pgDump.image"
	Image string `json:"image,omitempty"`
	// Resources are the requests and limits of the container that makes the dump.
	// +optional
	// +kubebuilder:default={requests: {cpu: "100m", memory: "128Mi"}, limits: {memory: "512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
}

// SnapshotStorage is where dumps are kept.
type SnapshotStorage struct {
	// PersistentVolumeClaim is the claim.
	// +required
	PersistentVolumeClaim SnapshotClaim `json:"persistentVolumeClaim"`
}

// SnapshotClaim is a claim of yours, or one of the DBSnapshot's own, <name>-snapshots.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (has(self.template) || !has(self.claimName) || !has(oldSelf.claimName) || self.claimName == oldSelf.claimName)",message="the copies of one DBSnapshot are in one claim: leave spec.storage.persistentVolumeClaim as it was but for template.size, or make a new DBSnapshot"
// +kubebuilder:validation:XValidation:rule="has(self.claimName) != has(self.template)",message="set exactly one of spec.storage.persistentVolumeClaim.claimName and spec.storage.persistentVolumeClaim.template"
type SnapshotClaim struct {
	// ClaimName names a claim in the same namespace. It is never changed or deleted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// Template is what the claim of its own is to be.
	// +optional
	Template *ClaimTemplate `json:"template,omitempty"`
}

// ClaimTemplate is what a claim is to be.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the class of a claim cannot change: leave storageClassName as it was, or make a new DBSnapshot"
type ClaimTemplate struct {
	// Size of the claim. It may grow.
	// +required
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')",message="the size of the claim must be an amount greater than 0 in Mi, Gi or Ti, for example 100Gi"
	Size string `json:"size"`
	// StorageClassName is the class of the claim when it is made. The default is the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// SnapshotRetention is how long copies are kept.
type SnapshotRetention struct {
	// KeepLast is how many copies that succeeded are kept.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	KeepLast int32 `json:"keepLast,omitempty"`
	// MaxAge is after what time a copy goes although there are no more than keepLast, for example 720h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="spec.retention.maxAge must be a duration greater than 0, for example 720h or 36h30m"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// KeepFailed is how many attempts that failed are kept to be looked at.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	KeepFailed *int32 `json:"keepFailed,omitempty"`
}
