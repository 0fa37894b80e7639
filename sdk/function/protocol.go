package function

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ProtocolVersion is the version of the protocol between the engine and functions. It changes only if an existing function
// would misread a request, or if the engine would misread its answer.
const ProtocolVersion = 1

// Calls are the values of [Request.Call].
const (
	// CallReconcile asks for the desired children and the status.
	CallReconcile = "reconcile"
	// CallFinalize asks for the clean-up of an object that is being deleted. It is repeated until the answer has neither
	// unfinished, wait, invalid nor error.
	CallFinalize = "finalize"
)

// Request is what a function is called with: the observed state. A function is pure: its answer depends on nothing else.
type Request struct {
	// Protocol is [ProtocolVersion].
	Protocol int `json:"protocol"`
	// ID identifies the request. The answer repeats it.
	ID string `json:"id"`
	// Call is [CallReconcile] or [CallFinalize].
	Call string `json:"call"`
	// Object is the object to reconcile, without managedFields.
	Object map[string]any `json:"object"`
	// Children are the children of the object, ordered by apiVersion, kind, namespace and name. Children of a kind with
	// metadataOnly have only their metadata.
	Children []map[string]any `json:"children"`
	// Observed are the objects of observed kinds that belong to the object, in the same order.
	Observed []map[string]any `json:"observed"`
	// References are the references that the last answer for the object named, and what they refer to.
	References []Reference `json:"references"`
	// Namespaces are the namespaces that the operator is restricted to; none means all.
	Namespaces []string `json:"namespaces"`
	// Now is the time of the reconcile, in RFC 3339 with nanoseconds, in UTC.
	Now string `json:"now"`
	// Dry reports that nothing will be carried out.
	Dry bool `json:"dry"`
}

// Reference names one object or, without a name, all objects of a kind with these labels. Exactly these objects are watched
// as long as answers name them: a change of one of them causes a reconcile.
type Reference struct {
	// APIVersion and Kind must be listed in the references of the operator's declaration.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace defaults to that of the object, for one object of a namespaced kind. A selection without a namespace is one
	// of all namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Name selects one object.
	Name string `json:"name,omitempty"`
	// Selector selects objects by label in the notation of kubectl, for example "app=db,tier!=cache". Empty selects all. It
	// is not used with a name.
	Selector string `json:"selector,omitempty"`
	// Objects are the objects found, ordered by namespace and name. It is set in requests only.
	Objects []map[string]any `json:"objects"`
}

// Answer is what a function returns: the desired state.
//
// At most one of Unfinished, Wait, Invalid and Error is set. If one of the last three is, no child is applied or deleted,
// and the status, the conditions
// and the events are written. If References has an entry that the request did not have, nothing of the answer is carried
// out: the function is called again with the objects.
type Answer struct {
	// Protocol is [ProtocolVersion].
	Protocol int `json:"protocol"`
	// ID is that of the request.
	ID string `json:"id"`
	// Children are the desired children, in the order in which they are applied. A child that is not among them is deleted.
	Children []Child `json:"children,omitempty"`
	// Status replaces the fields of the status, except conditions and observedGeneration, which the engine writes. Null
	// leaves them as they are.
	Status map[string]any `json:"status,omitempty"`
	// Conditions replace the conditions of the function. Null leaves them as they are. Ready, Reconciling, Stalled, Deleting,
	// Paused, DryRun and Contended belong to the engine.
	Conditions []Condition `json:"conditions,omitempty"`
	// NotReady sets Ready=False with this reason, even if all children are ready.
	NotReady *Problem `json:"notReady,omitempty"`
	// Suspended sets Ready=False with this reason: the object is deliberately not working.
	Suspended *Problem `json:"suspended,omitempty"`
	// Wait means that an external condition must be met first.
	Wait *Problem `json:"wait,omitempty"`
	// Unfinished means that the clean-up takes further calls: the children are applied, the others are deleted, and the
	// object is kept. It is for [CallFinalize].
	Unfinished *Problem `json:"unfinished,omitempty"`
	// Invalid means that the spec must change first. It is not retried before the object or a reference changes.
	Invalid *Problem `json:"invalid,omitempty"`
	// Error is any other failure, in one sentence. It is retried with exponential backoff.
	Error string `json:"error,omitempty"`
	// RequeueAfterSeconds requests another reconcile after this time, in addition to those that events cause.
	RequeueAfterSeconds float64 `json:"requeueAfterSeconds,omitempty"`
	// References are the references that the answer depends on. See [Reference].
	References []Reference `json:"references,omitempty"`
	// Labels and Annotations are set on the object. Those of the last answer that are not among them are removed. They are for
	// an operator with [Config.Decorates].
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Events are sent about the object after the status was stored, and only if it differs.
	Events []Event `json:"events,omitempty"`
	// Orphan has the kinds of children that are orphaned where they would be deleted.
	Orphan []Kind `json:"orphan,omitempty"`
	// ForceDelete has terminating children to delete with a grace period of zero.
	ForceDelete []ChildName `json:"forceDelete,omitempty"`
}

// Child is a desired child and its options. The options have the meaning of the functions of the same name in package sdk.
type Child struct {
	// Object has exactly the fields that are enforced. Its namespace defaults to that of the parent.
	Object unstructured.Unstructured `json:"object"`
	// CreateOnly creates the child and never updates it.
	CreateOnly bool `json:"createOnly,omitempty"`
	// After holds the child back until these earlier children are ready.
	After []ChildName `json:"after,omitempty"`
	// AfterCreated holds the child back until these earlier children exist.
	AfterCreated []ChildName `json:"afterCreated,omitempty"`
	// HoldBack leaves the child as it is, and the object waits for this reason.
	HoldBack *Problem `json:"holdBack,omitempty"`
	// Unmanaged leaves the fields at these paths, such as "spec.replicas", to others after the creation.
	Unmanaged []string `json:"unmanaged,omitempty"`
	// HoldUntil, if it is false, keeps the child by a finalizer until it is true in a later answer.
	HoldUntil *bool `json:"holdUntil,omitempty"`
	// Retain makes the child outlive the object.
	Retain bool `json:"retain,omitempty"`
	// OnImmutable is Stall (the default), Recreate or RecreateOrphan.
	OnImmutable string `json:"onImmutable,omitempty"`
	// Adopt takes over an existing object without a controller that has these labels; {} adopts any.
	Adopt *Adoption `json:"adopt,omitempty"`
	// ConflictReason is the reason of Ready if another object has the child's name.
	ConflictReason string `json:"conflictReason,omitempty"`
	// Ready replaces the readiness check. It is the readiness of the child as the request had it: a child that the engine
	// has written since is not ready before the next call.
	Ready *Readiness `json:"ready,omitempty"`
}

// Adoption selects the objects to adopt.
type Adoption struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Readiness is a result of a readiness check.
type Readiness struct {
	OK bool `json:"ok"`
	// Message describes what is missing.
	Message string `json:"message,omitempty"`
}

// Problem is a reason, a CamelCase word, and a sentence.
type Problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// AfterSeconds is, for wait, the time after which the object is reconciled in any case.
	AfterSeconds float64 `json:"afterSeconds,omitempty"`
}

// Condition is a condition that the function defines. Status is True, False or Unknown.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Event is an event about the object. Type is Normal, the default, or Warning.
type Event struct {
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Kind is a kind in one version.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// ChildName names a child.
type ChildName struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}
