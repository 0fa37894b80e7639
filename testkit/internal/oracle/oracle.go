// Package oracle says what is wrong with what an operator did, whatever it is for: rules that hold for every operator.
//
// It judges records: requests (package wire) and the states that objects had (package history). It neither waits nor asks
// the API server. What needs to know the operator, such as its end state without a fault, is judged elsewhere.
package oracle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// The oracles, by the names by which they are reported and switched off.
const (
	Forbidden = "forbidden"    // the operator's roles lack a right
	Refused   = "refused"      // the API server refuses what the operator sends
	Status    = "status"       // the status is not valid
	Spec      = "spec-written" // the operator changes the spec of what it is told by
)

// Calls finds requests that the API server refused for good. What it refuses for now (404, 409, 410, 429) is no mistake.
func Calls(calls []intercept.Call) []report.Violation {
	var found []report.Violation
	for i, c := range calls {
		if !c.Reached || intercept.IsLease(c.Request) && c.Code != http.StatusForbidden {
			continue
		}
		switch c.Code {
		case http.StatusForbidden:
			if !IsTerminatingNamespace(c) {
				found = append(found, report.Violation{
					Oracle: Forbidden, Detail: c.Message,
					Message: "the operator's roles lack a right that it uses: " + Rule(c),
				})
			}
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			if !IsStale(c) && !isReplaced(c, calls[i+1:]) {
				found = append(found, report.Violation{
					Oracle: Refused, Detail: c.Message,
					Message: fmt.Sprintf("the API server refuses what the operator sends: %s", c.Request),
				})
			}
		}
	}
	return found
}

// IsTerminatingNamespace tells the refusal to create something in a namespace, or of a kind, that is being deleted from a missing right.
// That of a kind is recognized by its sentence: it carries no cause.
func IsTerminatingNamespace(c intercept.Call) bool {
	return slices.Contains(c.Causes, string(corev1.NamespaceTerminatingCause)) ||
		strings.HasSuffix(c.Message, "create not allowed while custom resource definition is terminating")
}

// operation is one of those of a JSON patch.
type operation struct {
	Op string `json:"op"`
}

// IsStale tells the refusal of a write that was computed from an object which is gone, which is another way to say 409:
// the request carries a UID that is not the one of the object of that name, and the API server says that it cannot change.
// An apply with a UID is a question, too, and that a field is immutable may be the answer: who does not mean to ask does not
// name the instance. A JSON patch says 409 in the same way, if what it tests first is not so.
func IsStale(c intercept.Call) bool {
	if c.Code != http.StatusUnprocessableEntity {
		return false
	}
	var patch []operation
	if json.Unmarshal(c.Sent, &patch) == nil {
		tests := slices.ContainsFunc(patch, func(o operation) bool { return o.Op == "test" })
		return tests && strings.Contains(c.Message, "the server rejected our request")
	}
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(c.Sent, &object) // what is no object has no UID
	return strings.Contains(c.Message, "metadata.uid") || c.Verb == "apply" && object.Metadata.UID != ""
}

// isReplaced reports whether the operator, refused a change, went on to delete the object, to make it anew.
func isReplaced(refused intercept.Call, later []intercept.Call) bool {
	return slices.ContainsFunc(later, func(c intercept.Call) bool {
		kind := intercept.KindOf(c.Request) == intercept.KindOf(refused.Request)
		return kind && c.Namespace == refused.Namespace && c.Name == refused.Name &&
			c.Verb == "delete" && c.Reached && c.Code < http.StatusMultipleChoices
	})
}

// Rule is the RBAC rule that would allow the call.
func Rule(c intercept.Call) string {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	verb := c.Verb
	if verb == "apply" {
		verb = "patch"
	}
	return fmt.Sprintf("apiGroups: [%q], resources: [%q], verbs: [%q]", c.Group, resource, verb)
}

// StatusKinds returns the kinds of which the calls write the status: those that the operator is told by.
func StatusKinds(calls []intercept.Call) map[intercept.Kind]bool {
	kinds := map[intercept.Kind]bool{}
	for _, c := range calls {
		if c.Subresource == "status" && c.Writes() {
			kinds[intercept.KindOf(c.Request)] = true
		}
	}
	return kinds
}

// KindOf is the kind of the object that changed.
func KindOf(c history.Change) intercept.Kind {
	return intercept.Kind{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// SpecWrites finds writes of the operator that changed the generation of an object which the user made, of a kind of which the
// operator writes the status.
func SpecWrites(operator, user []intercept.Call, changes []history.Change, kinds map[intercept.Kind]bool) []report.Violation {
	theirs := map[string]bool{}
	last := map[types.UID]int64{}
	for _, c := range user {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			theirs[c.UID] = true
			last[types.UID(c.UID)] = c.Generation // it may be from before the history
		}
	}
	wrote := writes(operator, theirs)
	var found []report.Violation
	for _, c := range changes {
		uid, generation := c.Object.GetUID(), c.Object.GetGeneration()
		call, ours := wrote[string(uid)+"@"+c.Object.GetResourceVersion()]
		going := c.Object.GetDeletionTimestamp() != nil // which is a new generation, too, by whoever deleted it
		if before, known := last[uid]; ours && known && !going && generation > before && kinds[KindOf(c)] {
			found = append(found, report.Violation{
				Oracle: Spec, Detail: call.String(),
				Message: fmt.Sprintf("the operator changed the spec of %s, which is the user's", timeline.Name(c.Object)),
			})
		}
		last[uid] = generation
	}
	return found
}

// writes returns, by object and version, the calls by which objects came about other than in their status.
func writes(calls []intercept.Call, of map[string]bool) map[string]intercept.Call {
	wrote := map[string]intercept.Call{}
	for _, c := range calls {
		if of[c.UID] && c.Subresource == "" && c.Verb != "delete" && c.Code < http.StatusMultipleChoices {
			wrote[c.UID+"@"+c.Version] = c
		}
	}
	return wrote
}

// Statuses finds states whose conditions are not valid, or moved without a reason, among the objects of the kinds. Those
// that others wrote are not judged: ours says which state came about by a request of the operator.
func Statuses(changes []history.Change, kinds map[intercept.Kind]bool, ours func(history.Change) bool) []report.Violation {
	var found []report.Violation
	last := map[types.UID][]metav1.Condition{}
	for _, c := range changes {
		if c.Type == watch.Deleted || !kinds[KindOf(c)] {
			continue
		}
		conditions, wrong := conditionsOf(c.Object)
		if wrong == "" {
			wrong = transitionTimeMoved(last[c.Object.GetUID()], conditions)
		}
		if wrong != "" && ours(c) {
			found = append(found, report.Violation{
				Oracle: Status, Detail: timeline.Describe(c.Object),
				Message: fmt.Sprintf("the status of %s is not valid: %s", timeline.Name(c.Object), wrong),
			})
		}
		last[c.Object.GetUID()] = conditions
	}
	return found
}

// conditionsOf reads the conditions and says what is not valid about them.
func conditionsOf(u *unstructured.Unstructured) (conditions []metav1.Condition, wrong string) {
	observed, ok, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if ok && observed > u.GetGeneration() {
		return nil, fmt.Sprintf("observedGeneration is %d, and the generation is %d", observed, u.GetGeneration())
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	seen := map[string]bool{}
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, "a condition is no object"
		}
		c := condition(m)
		if wrong := invalid(c, u.GetGeneration()); wrong != "" {
			return nil, wrong
		}
		if seen[c.Type] {
			return nil, fmt.Sprintf("condition %s is there twice", c.Type)
		}
		seen[c.Type] = true
		conditions = append(conditions, c)
	}
	return conditions, ""
}

func condition(m map[string]any) metav1.Condition {
	text := func(name string) string { s, _ := m[name].(string); return s }
	c := metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason")}
	if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
		c.LastTransitionTime = metav1.NewTime(at)
	}
	c.ObservedGeneration, _ = m["observedGeneration"].(int64)
	return c
}

func invalid(c metav1.Condition, generation int64) string {
	switch {
	case c.Type == "":
		return "a condition has no type"
	case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse && c.Status != metav1.ConditionUnknown:
		return fmt.Sprintf("condition %s has status %q, which is none of True, False and Unknown", c.Type, c.Status)
	case c.ObservedGeneration > generation:
		return fmt.Sprintf("condition %s has observed generation %d, and the object is at %d",
			c.Type, c.ObservedGeneration, generation)
	default:
		return ""
	}
}

// transitionTimeMoved finds a transition time that changed although the status did not.
func transitionTimeMoved(before, after []metav1.Condition) string {
	for _, a := range after {
		for _, b := range before {
			if a.Type == b.Type && a.Status == b.Status && !b.LastTransitionTime.IsZero() &&
				!a.LastTransitionTime.Equal(&b.LastTransitionTime) {
				return fmt.Sprintf("the lastTransitionTime of condition %s moved although its status stayed %s", a.Type, a.Status)
			}
		}
	}
	return ""
}
