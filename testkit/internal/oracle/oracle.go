// Package oracle checks rules that hold for every operator.
//
// It evaluates records: requests (package intercept) and states of objects (package history). It neither waits nor sends
// requests. Checks that need a baseline are elsewhere.
package oracle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
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
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// The oracles, by the names that reports use and options take.
const (
	Forbidden = "forbidden"    // the operator's roles lack a permission, or admission denies a request
	Refused   = "refused"      // the API server rejects a request for its content
	Status    = "status"       // the status is invalid
	Spec      = "spec-written" // the operator changes the spec of its custom resource
)

// Calls finds requests that the API server rejected permanently. Temporary rejections (404, 409, 410, 429), and those of
// late writes, are no violations.
func Calls(calls []intercept.Call) []report.Violation {
	var found []report.Violation
	for i, c := range calls {
		if !c.Reached || c.Late || intercept.IsLease(c.Request) && c.Code != http.StatusForbidden {
			continue
		}
		switch c.Code {
		case http.StatusForbidden:
			if !IsTerminatingNamespace(c) && !isProbe(c) {
				found = append(found, report.Violation{
					Oracle: Forbidden, Detail: c.Message,
					Message: forbidden(c),
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

// IsTerminatingNamespace reports whether a request was forbidden because its namespace, or the definition of its kind, is
// terminating. The roles are correct then. A terminating definition is recognized by the message, because the response
// has no cause.
func IsTerminatingNamespace(c intercept.Call) bool {
	return slices.Contains(c.Causes, string(corev1.NamespaceTerminatingCause)) ||
		strings.HasSuffix(c.Message, "create not allowed while custom resource definition is terminating")
}

// isProbe reports whether a request asks for no content: a response of any code answers it.
func isProbe(c intercept.Call) bool { return c.Verb == "head" && c.Resource == "" }

// operation is an operation of a JSON patch.
type operation struct {
	Op string `json:"op"`
}

// IsStale reports whether a write was rejected because its object was replaced: a conflict, although the status is not
// 409. The request contains the UID of the former object, and the API server reports that the UID is immutable. For an
// apply with a UID the message may name another immutable field. A JSON patch reports a failed test operation in the same
// way.
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
	_ = json.Unmarshal(c.Sent, &object) // not an object: no UID
	return strings.Contains(c.Message, "metadata.uid") || c.Verb == "apply" && object.Metadata.UID != ""
}

// isReplaced reports whether the operator deleted the object after the rejection, to recreate it.
func isReplaced(refused intercept.Call, later []intercept.Call) bool {
	return slices.ContainsFunc(later, func(c intercept.Call) bool {
		kind := intercept.GroupResourceOf(c.Request) == intercept.GroupResourceOf(refused.Request)
		return kind && c.Namespace == refused.Namespace && c.Name == refused.Name &&
			c.Verb == "delete" && c.Reached && c.Code < http.StatusMultipleChoices
	})
}

// StatusKinds returns the kinds whose status the calls write: the operator's custom resources.
func StatusKinds(calls []intercept.Call) map[intercept.GroupResource]bool {
	kinds := map[intercept.GroupResource]bool{}
	for _, c := range calls {
		if c.Subresource == "status" && c.IsWrite() {
			kinds[intercept.GroupResourceOf(c.Request)] = true
		}
	}
	return kinds
}

// GroupResourceOf returns the group and the resource of the changed object.
func GroupResourceOf(c history.Change) intercept.GroupResource {
	return intercept.GroupResource{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// SpecWrites finds writes of the operator that changed the generation of a user's object, for kinds whose status the
// operator writes.
func SpecWrites(
	operator, user []intercept.Call, changes []history.Change, kinds map[intercept.GroupResource]bool,
) []report.Violation {
	theirs := map[string]bool{}
	last := map[types.UID]int64{}
	desired := map[types.UID]any{}
	for _, c := range user {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			theirs[c.UID] = true
			last[types.UID(c.UID)] = c.Generation // the history may begin later
		}
	}
	wrote := writes(operator, theirs)
	var found []report.Violation
	for _, c := range changes {
		uid, generation := c.Object.GetUID(), c.Object.GetGeneration()
		call, ours := wrote[string(uid)+"@"+c.Object.GetResourceVersion()]
		going := c.Object.GetDeletionTimestamp() != nil // a deletion increments the generation, too
		before, known := last[uid]
		was, seen := desired[uid]
		content := state.DesiredContent(c.Object)
		isSame := seen && reflect.DeepEqual(was, content) // a typed client adds empty fields
		if ours && known && !going && generation > before && !isSame && kinds[GroupResourceOf(c)] {
			found = append(found, report.Violation{
				Oracle: Spec, Detail: call.String(),
				Message: fmt.Sprintf("the operator changed the spec of %s, which is the user's", timeline.Name(c.Object)),
			})
		}
		last[uid], desired[uid] = generation, content
	}
	return found
}

// writes returns the calls that wrote the given objects outside of their status, by UID and version.
func writes(calls []intercept.Call, of map[string]bool) map[string]intercept.Call {
	wrote := map[string]intercept.Call{}
	for _, c := range calls {
		if of[c.UID] && c.Subresource == "" && c.Verb != "delete" && c.Code < http.StatusMultipleChoices {
			wrote[c.UID+"@"+c.Version] = c
		}
	}
	return wrote
}

// Statuses finds invalid conditions, and transition times that moved without a transition, in the objects of the kinds.
// ours reports whether a state was written by the operator. States of other writers are not checked.
func Statuses(
	changes []history.Change, kinds map[intercept.GroupResource]bool, ours func(history.Change) bool,
) []report.Violation {
	var found []report.Violation
	last := map[types.UID][]metav1.Condition{}
	for _, c := range changes {
		if c.Type == watch.Deleted || !kinds[GroupResourceOf(c)] {
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

// conditionsOf returns the conditions and a description of the first error, or "".
func conditionsOf(u *unstructured.Unstructured) (conditions []metav1.Condition, wrong string) {
	observed, ok := readiness.ObservedGeneration(u)
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

// transitionTimeMoved finds a transition time that changed without the status.
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
