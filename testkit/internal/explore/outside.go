package explore

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// checkOutside finds objects outside of the run's namespace that the operator wrote, and cluster-scoped objects of the
// scenario that it reconciles. The history does not have them, so they are neither compared nor changed by faults, and the
// scenario's are not deleted at the end: without this check, such an operator would pass untested. Runs with a fault are not
// checked: they would repeat the finding of the runs without one.
func (ch checks) checkOutside() {
	if ch.baseline != nil {
		return
	}
	for _, c := range ch.operator.Calls() {
		if isStored(c) && c.IsWrite() && ch.isOutside(c) {
			ch.addViolation(oracleOutside, fmt.Sprintf("the operator writes %s, which is %s: it is not observed",
				nameOf(c), scopeOf(c)), c.String())
		}
	}
	opened := ch.opened()
	for _, c := range ch.user.Calls()[min(ch.setupCalls, len(ch.user.Calls())):] {
		isNew := isStored(c) && c.Namespace == "" && c.Code == http.StatusCreated
		if isNew && slices.Contains(opened, intercept.GroupResourceOf(c.Request)) {
			ch.addViolation(oracleOutside, fmt.Sprintf("the scenario creates %s, which is %s and which the operator reconciles: "+
				"it is not observed, and not deleted at the end", nameOf(c), scopeOf(c)), c.String())
		}
	}
}

// isStored reports whether a request changed an object. The response to a review has no UID, and that to a deletion may
// have none.
func isStored(c intercept.Call) bool {
	accepted := c.Reached && c.Code < http.StatusMultipleChoices && !c.DryRun
	return accepted && (c.UID != "" || c.Verb == "delete") && c.Resource != "events" && !intercept.IsLease(c.Request)
}

// isOutside reports whether the object of a request is not in the run's namespace.
func (ch checks) isOutside(c intercept.Call) bool {
	isNamespace := c.Group == "" && c.Resource == "namespaces" && c.Name == ch.space.Namespace
	return c.Namespace != ch.space.Namespace && !isNamespace
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
