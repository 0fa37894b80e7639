package explore

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// The oracles, by the names that reports use and Options.DisabledOracles takes.
const (
	oracleScenario  = "scenario"             // a step waits in vain
	oracleEndState  = "end-state"            // the state after a step differs from the baseline's
	oracleCounts    = "creations"            // objects were created or deleted more or less often than in the baseline
	oracleAtRest    = "writes-at-rest"       // the operator does not become idle
	oracleRestart   = "writes-after-restart" // a restart changes something in a converged state
	oracleResidue   = "residue"              // objects are left after the custom resource was deleted
	oracleForbidden = oracle.Forbidden       // the operator's roles lack a permission
	oracleRefused   = oracle.Refused         // the API server rejects a request for its content
	oracleStatus    = oracle.Status          // the status is invalid or false
	oracleSpec      = oracle.Spec            // the operator changes the spec of its custom resource
	oracleLost      = "lost-update"          // the operator undoes a change of another manager
	oracleExit      = "exit"                 // the operator ended or stopped working
	oracleInvariant = "never"                // an invariant is violated
	oracleRights    = "rights"               // the roles grant more than an operator needs
	oraclePanic     = oracle.Panic           // the operator panics
	oracleForeign   = "foreign"              // an object of another owner was changed or deleted
	oracleOutside   = "outside"              // objects are written where the exploration does not observe them
	oracleFresh     = "fresh"                // the state after edits differs from that of a fresh operator
)

// Oracles returns the names of all oracles.
func Oracles() []string {
	return []string{
		oracleScenario, oracleEndState, oracleCounts, oracleAtRest, oracleRestart, oracleResidue, oracleForbidden,
		oracleRefused, oracleStatus, oracleSpec, oracleLost, oracleExit, oracleInvariant,
		oracleRights, oraclePanic, oracleOutside, oracleForeign, oracleFresh,
	}
}

func rule(c intercept.Call) string { return oracle.Rule(c) }

// checkStatus checks the statements of the status while the operator is idle. It returns nil if they are true.
func (r *run) checkStatus(step int) *report.Violation {
	if !r.x.oracleEnabled(oracleStatus) {
		return nil
	}
	current := r.log.CurrentObjects()
	for _, c := range current {
		if !r.writesStatusOf(groupResourceOf(c)) || c.Object.GetDeletionTimestamp() != nil {
			continue
		}
		observed, ok := readiness.ObservedGeneration(c.Object)
		if ok && observed < c.Object.GetGeneration() && !r.foreign.any() {
			return &report.Violation{Oracle: oracleStatus, Detail: describe(c.Object), Message: fmt.Sprintf(
				"%s the status of %s is still that of generation %d, and the object is at %d",
				r.after(step), r.name(c), observed, c.Object.GetGeneration())}
		}
		if ready, ok := readiness.Condition(c.Object, "Ready"); !ok || ready.Status != "True" {
			continue
		}
		if v := r.checkReadyWithForeign(step, c.Object); v != nil {
			return v
		}
		for _, other := range current {
			if !metav1.IsControlledBy(other.Object, c.Object) || !isReported(other.Object) {
				continue
			}
			if missing := readiness.Missing(other.Object); missing != "" {
				return &report.Violation{Oracle: oracleStatus, Detail: describe(c.Object), Message: fmt.Sprintf(
					"%s %s says Ready, and its %s is not: %s", r.after(step), r.name(c), r.name(other), missing)}
			}
		}
	}
	return nil
}

// isReported reports whether a status describes the health of the object. Without controllers there is no such status,
// although the API server initializes that of some kinds with zeros. A custom resource without condition Ready does not
// describe its health.
func isReported(u *unstructured.Unstructured) bool {
	if _, ok := readiness.Condition(u, readiness.Ready); !ok && readiness.IsCustom(u) {
		return false
	}
	return slices.ContainsFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status"
	})
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

func (x *Explorer) oracleEnabled(oracle string) bool {
	return !slices.Contains(x.DisabledOracles, oracle)
}
