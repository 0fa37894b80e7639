package metacontroller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/function"
)

// set sets the options of a child for its update strategy.
func (s UpdateStrategy) set(child *function.Child, live map[string]any) {
	switch s.Method {
	case "", "OnDelete":
		child.CreateOnly = true
	case "Recreate", "RollingRecreate":
		child.OnImmutable = "Recreate"
	}
	if len(s.StatusChecks.Conditions) == 0 {
		return
	}
	child.Ready = &function.Readiness{OK: true}
	for _, check := range s.StatusChecks.Conditions {
		if message := check.missing(live); message != "" {
			child.Ready = &function.Readiness{Message: message}
		}
	}
}

// missing returns what an object lacks for a status check.
func (s StatusCheck) missing(live map[string]any) string {
	conditions, _, _ := unstructured.NestedSlice(live, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] != s.Type {
			continue
		}
		switch {
		case s.Status != nil && c["status"] != *s.Status:
			return fmt.Sprintf("condition %s is %v", s.Type, c["status"])
		case s.Reason != nil && c["reason"] != *s.Reason:
			return fmt.Sprintf("condition %s has the reason %v", s.Type, c["reason"])
		}
		return ""
	}
	return fmt.Sprintf("condition %s is missing", s.Type)
}
