package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Backup runs a command by the clock: a CronJob and a ConfigMap <name>-options, both owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupSpec   `json:"spec,omitempty"`
	Status BackupStatus `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Backup) CommonStatus() *Status { return o.Status.CommonStatus() }

// BackupSpec says what is wanted.
type BackupSpec struct {
	// Schedule is how often to run.
	// +kubebuilder:validation:Enum=hourly;daily;weekly
	// +kubebuilder:default=daily
	Schedule string `json:"schedule,omitempty"`
	// Env is the environment of each run.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-zA-Z_][a-zA-Z0-9_]*$'))",message="a name consists of letters, digits and _"
	Env map[string]string `json:"env,omitempty"`
	// Options become lines of the form name=value in the ConfigMap's file "options".
	// +optional
	Options map[string]string `json:"options,omitempty"`
}

// BackupList is a list.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Backup `json:"items"`
}

// BackupStatus is what was found.
type BackupStatus struct {
	Status `json:",inline"`

	// LastSyncTime is when this generation of the spec was carried out.
	// +optional
	LastSyncTime *metav1.MicroTime `json:"lastSyncTime,omitempty"`
}
