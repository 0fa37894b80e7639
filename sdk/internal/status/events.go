package status

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
)

// MergeEvents merges events with equal reasons: client-go keeps the first of such events for one version of an object and
// only counts the others.
func MergeEvents(events []desired.Event) []desired.Event {
	var all []desired.Event
	for _, ev := range events {
		i := slices.IndexFunc(all, func(other desired.Event) bool { return other.Type == ev.Type && other.Reason == ev.Reason })
		switch {
		case i < 0:
			all = append(all, ev)
		case !slices.Contains(strings.Split(all[i].Message, "; "), ev.Message):
			all[i].Message += "; " + ev.Message
		}
	}
	return all
}

// TransitionEvents returns the events for the transitions of the conditions.
func TransitionEvents(from, to desired.Object) []desired.Event {
	var all []desired.Event
	ready, stalled := conditions.Get(to, conditions.Ready), conditions.Get(to, conditions.Stalled)
	was := conditions.Get(from, conditions.Ready)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue && (was == nil || was.Status != metav1.ConditionTrue):
		all = append(all, desired.Event{Type: corev1.EventTypeNormal, Reason: "Ready", Message: "the object is ready"})
	case ready.Status == metav1.ConditionFalse && was != nil && was.Status == metav1.ConditionTrue:
		all = append(all, desired.Event{Type: unreadyType(to, ready), Reason: ready.Reason, Message: ready.Message})
	}
	wasStalled := conditions.Get(from, conditions.Stalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue &&
		(wasStalled == nil || wasStalled.Status != metav1.ConditionTrue || wasStalled.Reason != stalled.Reason) &&
		(was == nil || was.Status != metav1.ConditionTrue) {
		all = append(all, desired.Event{Type: corev1.EventTypeWarning, Reason: stalled.Reason, Message: stalled.Message})
	}
	return all
}

// unreadyType returns the type of the event for an object that is no longer ready. A rollout and a suspension are routine.
func unreadyType(o desired.Object, ready *metav1.Condition) string {
	reconciling, stalled := conditions.Get(o, conditions.Reconciling), conditions.Get(o, conditions.Stalled)
	suspended := reconciling != nil && reconciling.Status == metav1.ConditionFalse &&
		stalled != nil && stalled.Status == metav1.ConditionFalse
	if suspended || ready.Reason == reasonProgressing {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// KeepTransitionTimes restores the transition time of each condition with an unchanged status. A temporary value during the
// reconcile, such as Ready before Summarize replaced it, is no transition.
func KeepTransitionTimes(from, to desired.Object) {
	all := to.CommonStatus().Conditions
	for i := range all {
		if was := conditions.Get(from, all[i].Type); was != nil && was.Status == all[i].Status {
			all[i].LastTransitionTime = was.LastTransitionTime
		}
	}
}
