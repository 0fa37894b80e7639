// Package site defines the custom resources for the tests of the SDK's properties, with the fields that the tests need.
package site

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Site is a custom resource.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state of a site.
type Spec struct {
	// Text is the text that the site shows.
	Text string `json:"text,omitempty"`
	// Extra requests a second child.
	Extra bool `json:"extra,omitempty"`
	// SecretName is the name of a Secret.
	SecretName string `json:"secretName,omitempty"`
}

// Status is the observed state of a site.
type Status struct {
	conditions.Status `json:",inline"`

	// Seen is a counter for tests.
	Seen int64 `json:"seen,omitempty"`
	// UID is the UID of the child that was counted last.
	UID string `json:"uid,omitempty"`
}

// CommonStatus implements conditions.Object.
func (s *Site) CommonStatus() *conditions.Status { return &s.Status.Status }

// DeepCopyObject implements runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Status.Status.DeepCopyInto(&out.Status.Status)
	return &out
}

// List is a list of sites.
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

// Realm is a cluster-scoped Site.
type Realm Site

// CommonStatus implements conditions.Object.
func (r *Realm) CommonStatus() *conditions.Status { return &r.Status.Status }

// DeepCopyObject implements runtime.Object.
func (r *Realm) DeepCopyObject() runtime.Object {
	out, _ := (*Site)(r).DeepCopyObject().(*Site)
	return (*Realm)(out)
}

// RealmList is a list of realms.
type RealmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Realm `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *RealmList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Realm, len(l.Items))
	for i := range l.Items {
		item, _ := l.Items[i].DeepCopyObject().(*Realm)
		out.Items[i] = *item
	}
	return &out
}

// GroupVersion is the API version of all kinds of the package.
var GroupVersion = schema.GroupVersion{Group: "e2e.homeostat.dev", Version: "v1"}

// AddToScheme registers the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion.WithKind("Site"), &Site{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("SiteList"), &List{})
	s.AddKnownTypes(GroupVersion, &Realm{}, &RealmList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
