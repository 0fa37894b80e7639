package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Database is one database server.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DatabaseSpec   `json:"spec"`
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseSpec says what to run.
type DatabaseSpec struct {
	Engine        string `json:"engine"`
	Version       string `json:"version"`
	Storage       string `json:"storage"`
	Replicas      int32  `json:"replicas,omitempty"`
	BackupEnabled bool   `json:"backupEnabled,omitempty"`
	PasswordFrom  string `json:"passwordFrom,omitempty"`
}

// DatabaseStatus says what runs.
type DatabaseStatus struct {
	conditions.Status `json:",inline"`

	ReadyReplicas int32  `json:"readyReplicas,omitempty"`
	Endpoint      string `json:"endpoint,omitempty"`
	// Storage is the size that the data claim was made with.
	Storage string `json:"storage,omitempty"`
}

// DatabaseList is a list of Databases.
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Database `json:"items"`
}

func (d *Database) CommonStatus() *conditions.Status { return &d.Status.Status }

func (d *Database) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	d.Status.Status.DeepCopyInto(&out.Status.Status)
	return &out
}

func (l *DatabaseList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Database, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Database)
	}
	return &out
}

func addToScheme(s *runtime.Scheme) error {
	gv := schema.GroupVersion{Group: "techoral.com", Version: "v1"}
	s.AddKnownTypes(gv, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}
