package cloud

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/external"
)

// Site is a custom resource with buckets in a cloud.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state of a Site.
type Spec struct {
	// Size is the size of the bucket for data.
	Size int `json:"size"`
	// Logs adds a bucket for logs.
	Logs bool `json:"logs,omitempty"`
	// SecretName is the name of the Secret with the account and the token for the cloud. Empty means those of the operator.
	SecretName string `json:"secretName,omitempty"`
}

// Status is the observed state of a Site.
type Status struct {
	conditions.Status  `json:",inline"`
	external.Resources `json:",inline"`

	// LogsAddress is the address of the bucket for logs.
	LogsAddress string `json:"logsAddress,omitempty"`
}

// CommonStatus implements conditions.Object.
func (s *Site) CommonStatus() *conditions.Status { return &s.Status.Status }

// ExternalResources implements external.Object.
func (s *Site) ExternalResources() *external.Resources { return &s.Status.Resources }

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Status.Status.DeepCopyInto(&out.Status.Status)
	s.Status.Resources.DeepCopyInto(&out.Status.Resources)
	return &out
}

// List is a list of Sites.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Site `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		item, _ := l.Items[i].DeepCopyObject().(*Site)
		out.Items[i] = *item
	}
	return &out
}

// GroupVersion is the API version of the kind.
var GroupVersion = schema.GroupVersion{Group: "cloud.homeostat.dev", Version: "v1"}

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion.WithKind("Site"), &Site{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("SiteList"), &List{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
