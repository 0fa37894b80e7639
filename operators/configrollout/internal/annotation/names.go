// Package annotation reads and writes the annotations of the operator: the users' settings and the operator's state are
// both annotations of workloads. It makes no decision.
package annotation

// Prefix is the prefix of every annotation and label of the operator.
const Prefix = "rollout.homeostat.dev/"

// The annotations that users set on a workload. Ignore is also for ConfigMaps and Secrets.
const (
	// Enabled enables ("true") or disables ("false") a workload. It has precedence over the namespace.
	Enabled = Prefix + "enabled"
	// ConfigMaps lists more ConfigMaps of the namespace that the workload uses.
	ConfigMaps = Prefix + "configmaps"
	// Secrets lists more Secrets of the namespace that the workload uses.
	Secrets = Prefix + "secrets"
	// Ignore on a workload lists objects to ignore, and is "true" on a ConfigMap or Secret that is always ignored.
	Ignore = Prefix + "ignore"
	// HotReload lists objects that the workload reloads from its volumes without a restart.
	HotReload = Prefix + "hot-reload"
	// QuietPeriod is the time without a change before a rollout.
	QuietPeriod = Prefix + "quiet-period"
	// Window restricts the start of rollouts to time windows.
	Window = Prefix + "window"
	// OnFailure is the policy for a failed rollout: Continue, Hold or Rollback.
	OnFailure = Prefix + "on-failure"
	// DryRun reports rollouts without starting them.
	DryRun = Prefix + "dry-run"
	// Priority is a number: of several waiting workloads, the one with the greatest number is rolled first.
	Priority = Prefix + "priority"
)

// DefaultLabel on a namespace enables ("enabled") or disables ("disabled") all its workloads.
const DefaultLabel = Prefix + "default"

// The annotations that the operator writes. Digest is in the pod template; all others are on the workload.
const (
	// Digest identifies the configuration of the pods of a template.
	Digest = Prefix + "config-digest"
	// ObservedDigest identifies the configuration that the workload was last brought to.
	ObservedDigest = Prefix + "observed-digest"
	// ObservedSources has the same information for each source.
	ObservedSources = Prefix + "observed-sources"
	// ObservedTemplate is the value of Digest when ObservedDigest was written, if the two differ.
	ObservedTemplate = Prefix + "observed-template"
	// PendingDigest identifies the configuration of the pending rollout.
	PendingDigest = Prefix + "pending-digest"
	// PendingSince is the time of the first pending change.
	PendingSince = Prefix + "pending-since"
	// PendingChanged is the time when PendingDigest was last written.
	PendingChanged = Prefix + "pending-changed"
	// LastRollout describes the last rollout in JSON.
	LastRollout = Prefix + "last-rollout"
	// State explains why the workload is not up to date.
	State = Prefix + "state"
)
