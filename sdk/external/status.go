package external

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources is the part of a status that records external resources. Embed it inline in the status of a custom resource
// whose operator has sdk.Operator.External. Only the engine writes it: Reconcile reads it, and its changes are discarded.
//
// +kubebuilder:object:generate=true
type Resources struct {
	// External lists the resources outside of the cluster that belong to the object.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	External []Resource `json:"external,omitempty"`
}

// Object is a custom resource that records external resources.
type Object interface {
	// ExternalResources returns the part of the status. It is not a copy.
	ExternalResources() *Resources
}

// Phase is the state of an external resource.
//
// +kubebuilder:validation:Enum=Creating;Updating;Pending;Ready;Deleting
type Phase string

// The phases.
const (
	Creating Phase = "Creating" // a creation was or will be requested, and its result is not known
	Updating Phase = "Updating" // an update was or will be requested, and its result is not known
	Pending  Phase = "Pending"  // the remote API has not completed an operation
	Ready    Phase = "Ready"    // in its desired state
	Deleting Phase = "Deleting" // a deletion was or will be requested, and the resource may still exist
)

// Resource is what the status tells of one external resource.
//
// +kubebuilder:object:generate=true
//
//nolint:recvcheck // DeepCopyInto is generated, and changes the receiver
type Resource struct {
	// Kind of the resource.
	Kind string `json:"kind"`
	// Name of the resource within the object.
	Name string `json:"name"`
	// Phase of the resource.
	Phase Phase `json:"phase"`
	// Account of the remote API that the resource is in, if the object selects it.
	// +optional
	Account string `json:"account,omitempty"`
	// ID of the resource in the remote API.
	// +optional
	ID string `json:"id,omitempty"`
	// Token that identifies the creation in the remote API.
	// +optional
	Token string `json:"token,omitempty"`
	// Applied is the digest of the desired state that the remote API has accepted.
	// +optional
	Applied string `json:"applied,omitempty"`
	// Outputs are what the remote API tells of the resource, such as its address.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// Message describes a pending or failing operation.
	// +optional
	Message string `json:"message,omitempty"`
	// Request is a request whose answer is not known.
	// +optional
	Request *Request `json:"request,omitempty"`
}

// Request is the intent of a request. It is stored before the request is sent.
//
// +kubebuilder:object:generate=true
type Request struct {
	// Attempt identifies the request.
	Attempt string `json:"attempt"`
	// Time at which the intent was stored, or until which it was to be stored if the API server is slow.
	Time metav1.MicroTime `json:"time"`
	// Input of the request, in JSON. A repetition has the same input.
	// +optional
	Input string `json:"input,omitempty"`
	// UncertainUntil is the time until which an earlier request without an answer may still be carried out.
	// +optional
	UncertainUntil *metav1.MicroTime `json:"uncertainUntil,omitempty"`
}

// Exists reports whether the resource is known to have been created, and is not being deleted. Its Outputs are then valid.
func (r Resource) Exists() bool { return r.ID != "" && r.Phase != Deleting }

// IsReady reports whether the resource is in its desired state.
func (r Resource) IsReady() bool { return r.Phase == Ready }

// State is the state of a resource in the remote API.
type State struct {
	// ID identifies the resource in later requests. Required.
	ID string
	// Pending describes an operation of the remote API that is not complete. The resource is polled until it is "".
	Pending string
	// Drifted reports that the resource is not as the last accepted input describes it. It is then updated.
	Drifted bool
	// Outputs are stored in the status. They must not be secret, and must not change by themselves: each change is a write.
	Outputs map[string]string
}

// Equal reports whether two resources have the same content.
func (r Resource) Equal(other Resource) bool {
	return r.Kind == other.Kind && r.Name == other.Name && r.Phase == other.Phase && r.ID == other.ID &&
		r.Account == other.Account && r.Token == other.Token && r.Applied == other.Applied && r.Message == other.Message &&
		maps.Equal(r.Outputs, other.Outputs) && r.Request.equal(other.Request)
}

func (r *Request) equal(other *Request) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Attempt == other.Attempt && r.Input == other.Input && r.UncertainUntil.Equal(other.UncertainUntil)
}
