package explore

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// checkOutside finds objects that the operator wrote and that the history does not have, in namespaces that the run does not
// own. They are neither compared nor changed by faults: without this check, such an operator would pass untested. Runs with
// a fault are not checked: they would repeat the finding of the runs without one.
func (ch checks) checkOutside() {
	if ch.baseline != nil {
		return
	}
	for _, c := range ch.operator.Calls() {
		if ch.isMissingNamespace(c) {
			ch.addViolation(oracleOutside, fmt.Sprintf("the operator writes %s into namespace %s, which does not exist: "+
				"create it in the scenario", nameOf(c), c.Namespace), c.String())
		}
		if isStored(c) && c.IsWrite() && ch.isOutside(c) {
			ch.addViolation(oracleOutside, fmt.Sprintf("the operator writes %s, which is %s: it is not observed",
				nameOf(c), scopeOf(c)), c.String())
		}
	}
}

// isStored reports whether a request changed an object. The response to a review has no UID, and that to a deletion may
// have none.
func isStored(c intercept.Call) bool {
	accepted := c.Reached && c.Code < http.StatusMultipleChoices && !c.DryRun
	return accepted && (c.UID != "" || c.Verb == "delete") && c.Resource != "events" && !intercept.IsLease(c.Request)
}

// isMissingNamespace reports whether a request failed to create an object because its namespace has never existed.
func (ch checks) isMissingNamespace(c intercept.Call) bool {
	if !c.Reached || c.Code != http.StatusNotFound || c.Subresource != "" || c.Verb != "create" && c.Verb != "apply" {
		return false
	}
	existed := func(h history.Change) bool {
		return h.Object.GetKind() == "Namespace" && h.Object.GetName() == c.Namespace
	}
	return c.Namespace != "" && c.Namespace != ch.space.Namespace && !slices.ContainsFunc(ch.changes, existed)
}

// isOutside reports whether the history lacks the object of a request. The run's own Namespace is older than the history.
func (ch checks) isOutside(c intercept.Call) bool {
	if c.Namespace != "" {
		return !ch.log.Has(c.Namespace)
	}
	isNamespace := c.Group == "" && c.Resource == "namespaces" && c.Name == ch.space.Namespace
	return !isNamespace && !ch.x.recorder.Follows(c.Group, c.Resource)
}

func nameOf(c intercept.Call) string {
	return intercept.GroupResourceOf(c.Request).String() + "/" + c.Name
}

func scopeOf(c intercept.Call) string {
	if c.Namespace == "" {
		return "cluster-scoped"
	}
	return "in namespace " + c.Namespace
}
