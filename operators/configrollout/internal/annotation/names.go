// Package annotation reads and writes all that this operator knows: what users ask for is in annotations of workloads,
// and so is what the operator has to remember. It decides nothing.
package annotation

// Prefix begins the name of every annotation and label of this operator.
const Prefix = "rollout.homeostat.dev/"

// What users write: on a workload, and Ignore on a ConfigMap or Secret, too.
const (
	// Enabled takes a workload in ("true") or out ("false"), whatever its namespace says.
	Enabled = Prefix + "enabled"
	// ConfigMaps lists further ConfigMaps of the namespace that the workload uses.
	ConfigMaps = Prefix + "configmaps"
	// Secrets lists further Secrets of the namespace that the workload uses.
	Secrets = Prefix + "secrets"
	// Ignore lists names on a workload whose changes mean nothing, and is "true" on an object whose changes never do.
	Ignore = Prefix + "ignore"
	// HotReload lists names that the workload itself reads anew from its volumes.
	HotReload = Prefix + "hot-reload"
	// QuietPeriod is how long nothing may have changed before a rollout.
	QuietPeriod = Prefix + "quiet-period"
	// Window says when rollouts may start.
	Window = Prefix + "window"
	// OnFailure says what a failed rollout means: Continue, Hold or Rollback.
	OnFailure = Prefix + "on-failure"
	// DryRun lets the operator say what it would do, and not do it.
	DryRun = Prefix + "dry-run"
	// Priority is a number: of workloads that wait those with the greatest go first.
	Priority = Prefix + "priority"
)

// DefaultLabel on a namespace takes all its workloads in ("enabled") or leaves them out ("disabled").
const DefaultLabel = Prefix + "default"

// What the operator writes. Digest is the only one in the pod template; the others are on the workload.
const (
	// Digest identifies the configuration with which the pods of a template start.
	Digest = Prefix + "config-digest"
	// ObservedDigest identifies the configuration that the workload has been brought to.
	ObservedDigest = Prefix + "observed-digest"
	// ObservedSources is the same, source by source.
	ObservedSources = Prefix + "observed-sources"
	// ObservedTemplate is what Digest was when ObservedDigest was written, if that is something else.
	ObservedTemplate = Prefix + "observed-template"
	// PendingDigest identifies the configuration that the workload is to be brought to.
	PendingDigest = Prefix + "pending-digest"
	// PendingSince is when the workload fell behind.
	PendingSince = Prefix + "pending-since"
	// PendingChanged is when PendingDigest was written.
	PendingChanged = Prefix + "pending-changed"
	// LastRollout tells of the last rollout, as JSON.
	LastRollout = Prefix + "last-rollout"
	// State says in words what keeps the workload from being up to date.
	State = Prefix + "state"
)
