package testkit

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// A Check is something that can be said of an object, for Eventually and Consistently.
type Check struct {
	// Name says it in words, for example "Ready=True".
	Name string
	// Missing returns what is not as it should be, or "" when the object passes. The object is nil when there is
	// none of that name, and may not be changed.
	Missing func(obj client.Object) string

	// identity presents an object that was recreated under the same name as nil.
	identity bool
}

const absent = "the object does not exist"

// Ready is met by an object that is up to date with its spec and usable: a custom resource by its Ready condition,
// Kubernetes's own kinds by the rules of kstatus, for example a Deployment by all its replicas being available.
func Ready() Check {
	return Check{Name: "ready", Missing: read(readiness.Missing)}
}

// Condition is met by an object whose status has this condition, set for the current generation of its spec.
func Condition(kind string, want metav1.ConditionStatus) Check {
	return Check{Name: fmt.Sprintf("%s=%s", kind, want), Missing: read(func(u *unstructured.Unstructured) string {
		return readiness.MissingCondition(u, kind, want)
	})}
}

// Reason is met by an object whose status has this condition with this reason, set for the current generation.
func Reason(kind string, want metav1.ConditionStatus, reason string) Check {
	name := fmt.Sprintf("%s=%s/%s", kind, want, reason)
	return Check{Name: name, Missing: read(func(u *unstructured.Unstructured) string {
		if missing := readiness.MissingCondition(u, kind, want); missing != "" {
			return missing
		}
		if got, _ := readiness.Condition(u, kind); got.Reason != reason {
			return fmt.Sprintf("the reason of %s is %s (%s)", kind, got.Reason, got.Message)
		}
		return ""
	})}
}

// Exists is met as soon as the object is there.
func Exists() Check {
	return Check{Name: "exists", Missing: func(obj client.Object) string {
		if obj == nil {
			return absent
		}
		return ""
	}}
}

// Gone is met when the object is not there, or another one of the same name has taken its place.
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

// Match is met by an object for which f returns true. T is the type of the object that is waited for.
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

// read makes a check of any object from one that reads fields by name.
func read(missing func(*unstructured.Unstructured) string) func(client.Object) string {
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
