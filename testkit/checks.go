package testkit

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// A Check is a condition on an object, for Eventually and Consistently.
type Check struct {
	// Name describes the condition, for example "Ready=True".
	Name string
	// Missing returns the unmet part of the condition, or "" if the object passes. The object is nil if it does not
	// exist. Missing must not change it.
	Missing func(obj client.Object) string

	// identity reports an object that was recreated under the same name as nil.
	identity bool
}

const absent = "the object does not exist"

// Ready passes for an object that is up to date with its spec and usable. A custom resource needs the condition Ready.
// Built-in kinds follow the rules of kstatus: for example, all replicas of a Deployment have to be available.
func Ready() Check {
	return Check{Name: "ready", Missing: unstructuredCheck(readiness.Missing)}
}

// Condition passes for an object with this status condition, set for the current generation of its spec.
func Condition(kind string, want metav1.ConditionStatus) Check {
	return Check{Name: fmt.Sprintf("%s=%s", kind, want), Missing: unstructuredCheck(func(u *unstructured.Unstructured) string {
		return readiness.MissingCondition(u, kind, want)
	})}
}

// Reason passes for an object with this status condition and reason, set for the current generation of its spec.
func Reason(kind string, want metav1.ConditionStatus, reason string) Check {
	name := fmt.Sprintf("%s=%s/%s", kind, want, reason)
	return Check{Name: name, Missing: unstructuredCheck(func(u *unstructured.Unstructured) string {
		if missing := readiness.MissingCondition(u, kind, want); missing != "" {
			return missing
		}
		if got, _ := readiness.Condition(u, kind); got.Reason != reason {
			return fmt.Sprintf("the reason of %s is %s (%s)", kind, got.Reason, got.Message)
		}
		return ""
	})}
}

// Exists passes if the object exists.
func Exists() Check {
	return Check{Name: "exists", Missing: func(obj client.Object) string {
		if obj == nil {
			return absent
		}
		return ""
	}}
}

// Gone passes if the object does not exist, or if another object of the same name has replaced it.
func Gone() Check {
	return Check{Name: "gone", identity: true, Missing: func(obj client.Object) string {
		if obj == nil {
			return ""
		}
		if obj.GetDeletionTimestamp() == nil {
			return "it exists and is not being deleted"
		}
		return fmt.Sprintf("it is being deleted, held by the finalizers %q", obj.GetFinalizers())
	}}
}

// Match passes for an object for which f returns true. T is the type of the object passed to Eventually.
func Match[T client.Object](name string, f func(T) bool) Check {
	return Check{Name: name, Missing: func(obj client.Object) string {
		if obj == nil {
			return absent
		}
		typed, ok := obj.(T)
		if !ok {
			return fmt.Sprintf("it is a %T, and the check is for a %T", obj, *new(T))
		}
		if !f(typed) {
			return "it does not match"
		}
		return ""
	}}
}

// unstructuredCheck adapts a function of unstructured objects to objects of any type.
func unstructuredCheck(missing func(*unstructured.Unstructured) string) func(client.Object) string {
	return func(obj client.Object) string {
		if obj == nil {
			return absent
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			return missing(u)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return err.Error()
		}
		return missing(&unstructured.Unstructured{Object: content})
	}
}
