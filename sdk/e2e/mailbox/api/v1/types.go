// Package v1 contains the types of a mailbox.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// +operator-sdk:csv:customresourcedefinitions:displayName="Mailbox",resources={{ConfigMap,v1,""}}

// Mailbox is a custom resource with webhooks. Its older version v1beta1 has the field quota in place of quotaMiB.
type Mailbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state of a mailbox.
type Spec struct {
	// Address is the address of the mailbox, such as a@example.com. It cannot change.
	Address string `json:"address"`
	// QuotaMiB is the limit of the mailbox. The default is 100.
	QuotaMiB int32 `json:"quotaMiB,omitempty"`
}

// Status is the observed state of a mailbox.
type Status struct {
	conditions.Status `json:",inline"`
}

// CommonStatus implements conditions.Object.
func (m *Mailbox) CommonStatus() *conditions.Status { return &m.Status.Status }

// DeepCopyObject implements runtime.Object.
func (m *Mailbox) DeepCopyObject() runtime.Object {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	m.Status.Status.DeepCopyInto(&out.Status.Status)
	return &out
}

// List is a list of mailboxes.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Mailbox `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Mailbox, len(l.Items))
	for i := range l.Items {
		item, _ := l.Items[i].DeepCopyObject().(*Mailbox)
		out.Items[i] = *item
	}
	return &out
}

// GroupVersion is the API version of the kind.
var GroupVersion = schema.GroupVersion{Group: "mail.homeostat.dev", Version: "v1"}

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion.WithKind("Mailbox"), &Mailbox{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("MailboxList"), &List{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
