package conditions

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The condition types of every object. Their meaning is that of kstatus.
const (
	// Ready summarizes the object: True only if the current generation is fully realized and works.
	Ready = "Ready"
	// Reconciling is True while the controller works towards the current generation.
	Reconciling = "Reconciling"
	// Stalled is True if the controller cannot make progress until the spec or another object changes.
	Stalled = "Stalled"
	// Deleting is True while an object that is being deleted waits for its finalizer. It is absent otherwise.
	Deleting = "Deleting"
)

// ReasonSucceeded is the reason of Ready=True, and of Reconciling=False and Stalled=False beside it.
const ReasonSucceeded = "Succeeded"

// MaxMessage is the maximum length of a condition's message, in bytes. The API server would accept 32768, but a message is
// read in a terminal and is written again whenever it changes.
const MaxMessage = 1024

// Status is the part of a status that all kinds share. Embed it inline.
//
// +kubebuilder:object:generate=true
type Status struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions describe the current state. Ready is the summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Child is what a status tells of one object that belongs to it.
//
// +kubebuilder:object:generate=true
type Child struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object, if it has one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// UID of the object, if it exists.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Whether the object is as it should be and works.
	Ready bool `json:"ready"`
	// Why it is ready or not, as one word.
	Reason string `json:"reason"`
	// What is missing, as a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// Object is an API object with the shared [Status].
type Object interface {
	metav1.Object
	// CommonStatus returns the address of the shared status inside the object. It is never nil.
	CommonStatus() *Status
}

// Set writes one condition at the object's current generation and reports whether it changed. LastTransitionTime changes
// only with the status. The message is truncated to [MaxMessage].
func Set(o Object, conditionType string, status metav1.ConditionStatus, reason, message string) bool {
	return meta.SetStatusCondition(&o.CommonStatus().Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		ObservedGeneration: o.GetGeneration(),
		Reason:             reason,
		Message:            Truncate(message),
	})
}

// Remove removes a condition and reports whether it existed.
func Remove(o Object, conditionType string) bool {
	return meta.RemoveStatusCondition(&o.CommonStatus().Conditions, conditionType)
}

// Get returns the condition of that type, or nil.
func Get(o Object, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(o.CommonStatus().Conditions, conditionType)
}

// IsTrue reports whether the condition is True for the object's current generation. A condition of an older generation does
// not count.
func IsTrue(o Object, conditionType string) bool {
	c := Get(o, conditionType)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration()
}

// MarkReady sets Ready=True: the current generation is realized and works.
func MarkReady(o Object, message string) {
	summarize(o, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionFalse, ReasonSucceeded, message)
}

// MarkReconciling sets Ready=False and Reconciling=True: the controller continues by itself.
func MarkReconciling(o Object, reason, message string) {
	summarize(o, metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse, reason, message)
}

// MarkRetrying keeps Ready=True and sets Reconciling=True: a transient failure does not take a working object out of
// service. An object that was not ready is marked as by [MarkReconciling].
func MarkRetrying(o Object, reason, message string) {
	if !IsTrue(o, Ready) {
		MarkReconciling(o, reason, message)
		return
	}
	ready := Get(o, Ready)
	o.CommonStatus().ObservedGeneration = o.GetGeneration()
	Set(o, Ready, metav1.ConditionTrue, ready.Reason, ready.Message)
	Set(o, Reconciling, metav1.ConditionTrue, reason, message)
	Set(o, Stalled, metav1.ConditionFalse, Reconciling, "")
}

// MarkStalled sets Ready=False and Stalled=True: this generation cannot be realized. The message should name the fix.
func MarkStalled(o Object, reason, message string) {
	summarize(o, metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionTrue, reason, message)
}

// MarkSuspended sets Ready=False, Reconciling=False and Stalled=False: the object is deliberately not working.
func MarkSuspended(o Object, reason, message string) {
	summarize(o, metav1.ConditionFalse, metav1.ConditionFalse, metav1.ConditionFalse, reason, message)
}

// summarize writes the three kstatus conditions at once. Ready has the reason and the message, and so has the other
// condition that is True, so that each condition explains itself. The other conditions have an empty
// message, and the type of the condition that is True instead as their reason if it is not Ready.
func summarize(o Object, ready, reconciling, stalled metav1.ConditionStatus, reason, message string) {
	o.CommonStatus().ObservedGeneration = o.GetGeneration()
	Set(o, Ready, ready, reason, message)
	instead := reason
	if reconciling == metav1.ConditionTrue {
		instead = Reconciling
	} else if stalled == metav1.ConditionTrue {
		instead = Stalled
	}
	for _, c := range []struct {
		name   string
		status metav1.ConditionStatus
	}{{Reconciling, reconciling}, {Stalled, stalled}} {
		if c.status == metav1.ConditionTrue {
			Set(o, c.name, c.status, reason, message)
			continue
		}
		Set(o, c.name, c.status, instead, "")
	}
}

// Truncate cuts a message to [MaxMessage] bytes at a rune boundary. A message that it cuts ends with "...".
func Truncate(message string) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= MaxMessage {
		return message
	}
	const ellipsis = "..."
	cut := MaxMessage - len(ellipsis)
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}
