package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DBSnapshotStatus says what copies there are.
type DBSnapshotStatus struct {
	conditions.Status `json:",inline"`

	// Phase is what is going on, in one word: Scheduled, Running, Succeeded, Failed, Suspended or Overdue.
	// +optional
	Phase SnapshotPhase `json:"phase,omitempty"`
	// LastScheduleTime is the last time of the schedule that was acted on or missed.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is when the next copy is due.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// LastSuccessfulTime is when the last copy that succeeded was finished.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// LastFailureTime is when one failed for the last time.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
	// ConsecutiveFailures is how many failed since the last that succeeded.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// Missed is how many times of the schedule passed without an attempt.
	// +optional
	Missed int64 `json:"missed,omitempty"`
	// Active is the copy that is being made, or that is due and cannot begin yet.
	// +optional
	Active *ActiveSnapshot `json:"active,omitempty"`
	// LastSnapshot is the last copy that succeeded.
	// +optional
	LastSnapshot *LastSnapshot `json:"lastSnapshot,omitempty"`
	// RetentionAppliedAfter is the copy after which spec.retention was applied last.
	// +optional
	RetentionAppliedAfter string `json:"retentionAppliedAfter,omitempty"`
	// History is the copies that there are and the last attempts that failed, the newest first.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	// +listType=map
	// +listMapKey=name
	History []SnapshotRecord `json:"history,omitempty"`
}

// SnapshotPhase is what is going on, in one word.
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

// ActiveSnapshot is the copy that is being made, or that is due and cannot begin yet. The operator stores it before it
// makes any object of the copy. Therefore an interrupted operator continues this copy and begins no other.
type ActiveSnapshot struct {
	// Name of the copy.
	Name string `json:"name"`
	// ScheduleTime is when it was due.
	ScheduleTime metav1.Time `json:"scheduleTime"`
	// StartTime is when it began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// Message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// LastSnapshot is the last copy that succeeded.
type LastSnapshot struct {
	// Name of the copy.
	Name string `json:"name"`
	// Location is the file in the claim, or the VolumeSnapshot.
	Location string `json:"location"`
	// SizeBytes is how large it is.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// SHA256 is the checksum of the file, in hexadecimal digits.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// ServerVersion is the version of the server that was copied.
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`
	// Duration is how long it took.
	// +optional
	Duration metav1.Duration `json:"duration,omitempty,omitzero"`
	// Verified is how it was verified: none, list or restore.
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
	// ConditionScheduled: the times of the schedule count.
	ConditionScheduled = "Scheduled"
	// ConditionLastSucceeded: the last attempt ended with a copy.
	ConditionLastSucceeded = "LastSnapshotSucceeded"
	// ConditionOverdue: a newer copy is expected.
	ConditionOverdue = "Overdue"
	// ConditionRetention: all copies that spec.retention does not keep are deleted.
	ConditionRetention = "RetentionEnforced"
)

// SnapshotRecord is what became of one copy.
type SnapshotRecord struct {
	// Name of the copy.
	Name string `json:"name"`
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// FinishedAt is when it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Result is Succeeded or Failed.
	Result string `json:"result"`
	// Location is the file in the claim, or the VolumeSnapshot.
	// +optional
	Location string `json:"location,omitempty"`
	// SizeBytes is how large it is.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Held says that it is kept although spec.retention would let it go.
	// +optional
	Held bool `json:"held,omitempty"`
	// Message says why it failed.
	// +optional
	Message string `json:"message,omitempty"`
}
