package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DBSnapshotStatus is the observed state of a DBSnapshot.
type DBSnapshotStatus struct {
	conditions.Status `json:",inline"`

	// Phase summarizes the conditions: Scheduled, Running, Succeeded, Failed, Suspended or Overdue.
	// +optional
	Phase SnapshotPhase `json:"phase,omitempty"`
	// LastScheduleTime is the last time of the schedule at which a copy was started or missed.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is the time of the next copy.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// LastSuccessfulTime is the completion time of the last successful copy.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// LastFailureTime is the time of the last failed attempt.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
	// ConsecutiveFailures is the number of failed attempts since the last successful copy.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// Missed is the number of times of the schedule that passed without an attempt.
	// +optional
	Missed int64 `json:"missed,omitempty"`
	// Active is the current copy: it is in progress, or it is due and cannot start yet.
	// +optional
	Active *ActiveSnapshot `json:"active,omitempty"`
	// LastSnapshot is the last successful copy.
	// +optional
	LastSnapshot *LastSnapshot `json:"lastSnapshot,omitempty"`
	// RetentionAppliedAfter is the name of the copy after which spec.retention was last applied.
	// +optional
	RetentionAppliedAfter string `json:"retentionAppliedAfter,omitempty"`
	// History lists the existing copies and the last failed attempts, the newest first.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	// +listType=map
	// +listMapKey=name
	History []SnapshotRecord `json:"history,omitempty"`
}

// SnapshotPhase summarizes the conditions of a DBSnapshot.
type SnapshotPhase string

// Values of SnapshotPhase.
const (
	SnapshotScheduled SnapshotPhase = "Scheduled" // waits for the next scheduled time
	SnapshotRunning   SnapshotPhase = "Running"   // a copy is being made
	SnapshotSucceeded SnapshotPhase = "Succeeded" // without a schedule: the copy was made
	SnapshotFailed    SnapshotPhase = "Failed"    // the last attempt failed
	SnapshotSuspended SnapshotPhase = "Suspended" // suspended by its spec
	SnapshotOverdue   SnapshotPhase = "Overdue"   // a newer copy is expected
)

// ActiveSnapshot is the current copy: it is in progress, or it is due and cannot start yet. The operator stores it before it
// creates any object of the copy. Therefore an interrupted operator continues this copy and starts no other.
type ActiveSnapshot struct {
	// Name is the name of the copy.
	Name string `json:"name"`
	// ScheduleTime is the time at which the copy was due.
	ScheduleTime metav1.Time `json:"scheduleTime"`
	// StartTime is the time at which the copy started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// Message describes what the copy waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// LastSnapshot is the last successful copy.
type LastSnapshot struct {
	// Name is the name of the copy.
	Name string `json:"name"`
	// Location is the path of the file in the claim, or the name of the VolumeSnapshot.
	Location string `json:"location"`
	// SizeBytes is the size of the copy in bytes.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// SHA256 is the checksum of the file, in hexadecimal digits.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// ServerVersion is the version of the copied server.
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`
	// Duration is the duration of the copy.
	// +optional
	Duration metav1.Duration `json:"duration,omitempty,omitzero"`
	// Verified is the verification of the copy: none, list or restore.
	// +optional
	Verified string `json:"verified,omitempty"`
}

// Results of copies.
const (
	ResultSucceeded = "Succeeded"
	ResultFailed    = "Failed"
)

// HoldLabel with the value "true" excludes a VolumeSnapshot from retention. For a dump, a file beside it with its name and
// the suffix ".hold" has the same effect.
const HoldLabel = "techoral.com/hold"

// Condition types of a DBSnapshot, beside Ready, Reconciling and Stalled.
const (
	// ConditionScheduled reports whether the times of the schedule are acted on.
	ConditionScheduled = "Scheduled"
	// ConditionLastSucceeded reports whether the last attempt produced a copy.
	ConditionLastSucceeded = "LastSnapshotSucceeded"
	// ConditionOverdue reports that the newest copy is older than the schedule requires.
	ConditionOverdue = "Overdue"
	// ConditionRetention reports whether all copies that spec.retention does not keep are deleted.
	ConditionRetention = "RetentionEnforced"
)

// SnapshotRecord is the record of one copy.
type SnapshotRecord struct {
	// Name is the name of the copy.
	Name string `json:"name"`
	// StartedAt is the time at which the copy started.
	StartedAt metav1.Time `json:"startedAt"`
	// FinishedAt is the time at which the copy ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Result is Succeeded or Failed.
	Result string `json:"result"`
	// Location is the path of the file in the claim, or the name of the VolumeSnapshot.
	// +optional
	Location string `json:"location,omitempty"`
	// SizeBytes is the size of the copy in bytes.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Held reports that the copy is excluded from spec.retention.
	// +optional
	Held bool `json:"held,omitempty"`
	// Message describes the failure.
	// +optional
	Message string `json:"message,omitempty"`
}
