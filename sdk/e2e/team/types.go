package team

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Team is a cluster-scoped custom resource.
type Team struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state of a team.
type Spec struct {
	// Group is the group of users that may edit the namespace of the team.
	Group string `json:"group"`
	// Pods is the quota of the namespace.
	Pods int64 `json:"pods"`
}

// Status is the observed state of a team.
type Status struct {
	conditions.Status `json:",inline"`

	// Key is the idempotency key of the registration. It is stored before the first request: without it, nothing is registered.
	Key string `json:"key,omitempty"`
	// ID is the ID that the registry gave to the team.
	ID string `json:"id,omitempty"`
}

// CommonStatus implements conditions.Object.
func (t *Team) CommonStatus() *conditions.Status { return &t.Status.Status }

// DeepCopyObject implements runtime.Object.
func (t *Team) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	t.Status.Status.DeepCopyInto(&out.Status.Status)
	return &out
}

// List is a list of teams.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Team `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Team, len(l.Items))
	for i := range l.Items {
		item, _ := l.Items[i].DeepCopyObject().(*Team)
		out.Items[i] = *item
	}
	return &out
}

// GroupVersion is the API version of the kind.
var GroupVersion = schema.GroupVersion{Group: "team.homeostat.dev", Version: "v1"}

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion.WithKind("Team"), &Team{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("TeamList"), &List{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
