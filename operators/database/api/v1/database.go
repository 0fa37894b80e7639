package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Database is a database server: one primary and, if there are more members, replicas that follow it.
//
// The rules on the whole object compare with the stored one, because the API server evaluates them on every write of the
// status too: an object that was stored before a rule existed must not lose its status to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=databases,singular=database,shortName=db,categories=all
// +kubebuilder:printcolumn:name=Engine,type=string,JSONPath=`.spec.engine`,description="The database server."
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.spec.version`,description="Its version."
// +kubebuilder:printcolumn:name=Ready,type=integer,JSONPath=`.status.readyReplicas`,description="How many members work."
// +kubebuilder:printcolumn:name=State,type=string,JSONPath=`.status.state`,description="What is going on, in one word."
// +kubebuilder:printcolumn:name=Endpoint,type=string,JSONPath=`.status.endpoint`,description="Where the primary is reached."
// +kubebuilder:printcolumn:name=Storage,type=string,JSONPath=`.status.storage`,priority=1,description="What each member has."
// +kubebuilder:printcolumn:name=Pending,type=string,JSONPath=`.status.pendingAction`,priority=1,description="The manual action that it needs."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || (size(self.metadata.name) <= 42 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",fieldPath=".metadata",message="metadata.name does not fit the Services and the CronJob that are named after it: choose at most 42 lower-case letters, digits and dashes, beginning with a letter"
// +kubebuilder:validation:XValidation:rule="self.spec.storage == oldSelf.spec.storage || !has(oldSelf.status) || !has(oldSelf.status.storage) || quantity(self.spec.storage).compareTo(quantity(oldSelf.status.storage)) >= 0",fieldPath=".spec.storage",message="a volume does not become smaller: ask for no less than status.storage, which every member has already"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.spec.engine != 'mysql' || !has(self.spec.replicas) || self.spec.replicas <= 1 || (oldSelf.hasValue() && oldSelf.value().spec == self.spec)",fieldPath=".spec.replicas",message="replication is not supported for mysql: set spec.replicas to 1, or spec.engine to mariadb or postgresql in a new Database"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.spec.configuration) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec) || !self.spec.configuration.exists(k, ['port', 'bind_address', 'listen_addresses', 'unix_socket_directories', 'socket', 'data_directory', 'datadir', 'hba_file', 'ident_file', 'config_file', 'external_pid_file', 'pid_file', 'primary_conninfo', 'primary_slot_name', 'server_id', 'log_bin', 'networking', 'grant_tables', 'user', 'include', 'include_dir', 'include_if_exists', 'init_file', 'restore_command', 'recovery_end_command', 'archive_cleanup_command', 'promote_trigger_file'].exists(r, r.startsWith(k.lowerAscii().replace('-', '_').replace('loose_', \"\").replace('skip_', \"\").replace('disable_', \"\").replace('enable_', \"\").replace('maximum_', \"\").replace('autoset_', \"\"))))",fieldPath=".spec.configuration",message="one of the settings in spec.configuration is the operator's own, such as port or datadir: remove it"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.spec.configuration) || (oldSelf.hasValue() && oldSelf.value().spec == self.spec) || !self.spec.configuration.exists(k, ['fsync', 'full_page_writes', 'zero_damaged_pages', 'ignore_checksum_failure', 'ignore_invalid_pages', 'ignore_system_indexes', 'binlog_do_db', 'binlog_ignore_db', 'slave_errors', 'replica_errors', 'innodb_doublewrite', 'innodb_flush_log_at_trx_commit', 'innodb_force_recovery', 'sync_binlog', 'sql_log_bin', 'log_slave_updates', 'log_replica_updates'].exists(r, r.startsWith(k.lowerAscii().replace('-', '_').replace('loose_', \"\").replace('skip_', \"\").replace('disable_', \"\").replace('enable_', \"\").replace('maximum_', \"\").replace('autoset_', \"\"))) || k.lowerAscii().replace('-', '_').replace('loose_', \"\").replace('skip_', \"\").replace('disable_', \"\").replace('enable_', \"\").replace('maximum_', \"\").replace('autoset_', \"\").startsWith('recovery_target') || k.lowerAscii().replace('-', '_').replace('loose_', \"\").replace('skip_', \"\").replace('disable_', \"\").replace('enable_', \"\").replace('maximum_', \"\").replace('autoset_', \"\").startsWith('replicate_'))",fieldPath=".spec.configuration",message="one of the settings in spec.configuration could lose or falsify acknowledged data, such as fsync, recovery_target or replicate_do_db: remove it"
// +operator-sdk:csv:customresourcedefinitions:displayName="Database",resources={{StatefulSet,v1,""},{Service,v1,""},{PersistentVolumeClaim,v1,""},{Secret,v1,""},{ConfigMap,v1,""},{PodDisruptionBudget,v1,""},{CronJob,v1,""},{Job,v1,""}}
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what server to run, and how its data are kept.
	// +required
	Spec DatabaseSpec `json:"spec"`
	// Status says what runs. Only the operator writes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status DatabaseStatus `json:"status,omitempty,omitzero"`
}

// CommonStatus returns the common status fields: the conditions and the observed generation.
func (o *Database) CommonStatus() *conditions.Status { return &o.Status.Status }

// Members returns the number of members of a database that is not hibernated.
func (o *Database) Members() int32 {
	if o.Spec.Replicas == nil {
		return 1
	}
	return *o.Spec.Replicas
}

// DatabaseList is a list of Database objects.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Database `json:"items"`
}
