// Package readiness determines why an object is not ready, and reads conditions.
//
// It evaluates one object by its own status. Owned objects are not considered.
package readiness

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ready is the type of the condition that determines the readiness of a custom resource.
const Ready = "Ready"

// Missing returns the reason why the object is not ready, or "". A custom resource is ready if its Ready condition is
// true for the current generation of its spec. Kubernetes' own kinds follow the rules of kstatus.
func Missing(u *unstructured.Unstructured) string {
	if IsCustom(u) {
		return MissingCondition(u, Ready, metav1.ConditionTrue)
	}
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); u.GetKind() == "Pod" && phase == "Failed" {
		return "it has failed" // for kstatus it is done
	}
	result, err := status.Compute(u)
	switch {
	case err != nil:
		return err.Error()
	case result.Status != status.CurrentStatus:
		return fmt.Sprintf("it is %s: %s", result.Status, result.Message)
	}
	return ""
}

// ObservedGeneration returns the generation that the status is about, and whether the status has one. Some kinds store it as
// a text.
func ObservedGeneration(u *unstructured.Unstructured) (int64, bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "observedGeneration")
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// IsCustom reports whether the object is a custom resource. Kubernetes' own API groups have no dot in their name or end
// in k8s.io.
func IsCustom(u *unstructured.Unstructured) bool { return IsCustomGroup(u.GroupVersionKind().Group) }

// IsCustomGroup reports whether the resources of an API group are custom.
func IsCustomGroup(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// MissingCondition returns the reason why the object does not have a condition with this status for the current
// generation of its spec, or "".
func MissingCondition(u *unstructured.Unstructured, kind string, want metav1.ConditionStatus) string {
	got, found := Condition(u, kind)
	switch {
	case !found:
		return "it has no condition " + kind
	case got.Status != want:
		return fmt.Sprintf("%s is %s (%s: %s)", kind, got.Status, got.Reason, got.Message)
	case got.ObservedGeneration != 0 && got.ObservedGeneration < u.GetGeneration():
		return fmt.Sprintf("%s is %s, but for generation %d, and the spec is at %d",
			kind, got.Status, got.ObservedGeneration, u.GetGeneration())
	}
	return ""
}

// Condition returns a condition of the object's status.
func Condition(u *unstructured.Unstructured, kind string) (metav1.Condition, bool) {
	for _, c := range Conditions(u) {
		if c.Type == kind {
			return c, true
		}
	}
	return metav1.Condition{}, false
}

// Conditions returns the conditions of the object's status, in its order. Malformed ones are ignored.
func Conditions(u *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	data, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	var conditions []metav1.Condition
	if json.Unmarshal(data, &conditions) != nil {
		return nil
	}
	return conditions
}
