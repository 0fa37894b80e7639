package explore

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// lacksChild reports whether a request of the current step was about a child that the operator made in the baseline before
// this step and that does not exist. The state after each step is compared before the next one begins, unless the fault
// omits this, so the fault is the reason.
func (r *run) lacksChild() bool {
	if r.baseline == nil || r.step == 0 || r.step > len(r.baseline.Children) {
		return false
	}
	calls := r.user.Calls()
	return slices.ContainsFunc(calls[min(r.stepCalls, len(calls)):], func(c intercept.Call) bool {
		isMissing := c.Reached && c.Code == http.StatusNotFound && c.Name != ""
		return isMissing && slices.ContainsFunc(r.baseline.Children[r.step-1], func(child baseline.Child) bool {
			return child.Kind == intercept.GroupResourceOf(c.Request) && r.hasName(child, c)
		})
	})
}

// hasName reports whether a request has the namespace and the name of a child.
func (r *run) hasName(child baseline.Child, c intercept.Call) bool {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(child.Content, &object) != nil {
		return false
	}
	here := func(name string) string {
		return strings.ReplaceAll(name, baseline.NamespacePlaceholder, r.space.Namespace)
	}
	return here(object.Name) == c.Name && here(object.Namespace) == c.Namespace
}
