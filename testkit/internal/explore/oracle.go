package explore

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// The oracles, by the names that reports use and Options.Without takes.
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
	oraclePanic     = "panic"                // the operator panics
)

// Oracles returns the names of all oracles.
func Oracles() []string {
	return []string{
		oracleScenario, oracleEndState, oracleCounts, oracleAtRest, oracleRestart, oracleResidue, oracleForbidden,
		oracleRefused, oracleStatus, oracleSpec, oracleLost, oracleExit, oracleInvariant,
		oracleRights, oraclePanic,
	}
}

// checkAll runs all oracles on the records of the run.
func (r *run) checkAll() {
	r.checkCalls()
	r.checkSpecWrites()
	r.checkStatusHistory()
	r.checkLostUpdate()
	r.checkInvariants()
	r.checkCounts()
	r.checkSecretChanges()
	r.checkResidue()
	r.checkPermissions()
	r.checkPanics()
}

// checkPanics reports panics of operators in this process. Package sdk recovers from its own, and reports them as a
// reason.
func (r *run) checkPanics() {
	r.mu.Lock()
	everyone := slices.Clone(r.allProcesses)
	r.mu.Unlock()
	for _, p := range everyone {
		if p, ok := p.(interface{ Panics() []string }); ok {
			for _, text := range p.Panics() {
				value, stack, _ := strings.Cut(text, "\n")
				r.addViolation(oraclePanic, "the operator panicked: "+value, stack)
			}
		}
	}
	for _, c := range r.changes {
		for _, condition := range readiness.Conditions(c.Object) {
			if condition.Reason == "Panic" && r.statusKind(kindOf(c)) {
				r.addViolation(oraclePanic, "the operator panicked: "+condition.Message, describe(c.Object))
			}
		}
	}
}

// addViolations reports violations that hold for every operator (package oracle).
func (r *run) addViolations(violations []report.Violation) {
	for _, v := range violations {
		r.addViolation(v.Oracle, v.Message, v.Detail)
	}
}

func (r *run) checkCalls() { r.addViolations(oracle.Calls(r.operator.Calls())) }

func (r *run) isStale(c intercept.Call) bool { return oracle.IsStale(c) }

func rule(c intercept.Call) string { return oracle.Rule(c) }

func (r *run) checkSpecWrites() {
	r.addViolations(oracle.SpecWrites(r.operator.Calls(), r.user.Calls(), r.changes, r.statusKinds()))
}

// statusKinds returns the kinds whose status the operator writes.
func (r *run) statusKinds() map[intercept.Kind]bool {
	kinds := oracle.StatusKinds(r.operator.Calls())
	if r.baseline != nil {
		maps.Copy(kinds, r.baseline.Status)
	}
	return kinds
}

// statusKind reports whether the operator writes the status of this kind.
func (r *run) statusKind(kind intercept.Kind) bool { return r.statusKinds()[kind] }

func (r *run) checkStatusHistory() {
	all := func(history.Change) bool { return true }
	r.addViolations(oracle.Statuses(r.changes, r.statusKinds(), all))
	r.addViolations(oracle.PrematureConditions(r.changes, r.statusKinds(), all))
}

// checkStatus checks the statements of the status while the operator is idle. It returns nil if they are true.
func (r *run) checkStatus(step int) *report.Violation {
	if !r.x.oracleEnabled(oracleStatus) {
		return nil
	}
	current := r.log.Current()
	for _, c := range current {
		if !r.statusKind(kindOf(c)) || c.Object.GetDeletionTimestamp() != nil {
			continue
		}
		observed, ok, _ := unstructured.NestedInt64(c.Object.Object, "status", "observedGeneration")
		if ok && observed < c.Object.GetGeneration() {
			return &report.Violation{Oracle: oracleStatus, Detail: describe(c.Object), Message: fmt.Sprintf(
				"%s the status of %s is still that of generation %d, and the object is at %d",
				r.after(step), r.name(c), observed, c.Object.GetGeneration())}
		}
		if ready, ok := readiness.Condition(c.Object, "Ready"); !ok || ready.Status != "True" {
			continue
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

// checkLostUpdate checks that the annotation of another manager survived.
func (r *run) checkLostUpdate() {
	if r.externallyChanged == "" {
		return
	}
	was := false
	for _, c := range r.changes {
		if c.Object.GetUID() != r.externallyChanged || c.Type == watch.Deleted {
			continue
		}
		_, is := c.Object.GetAnnotations()[fault.ChangedAnnotation]
		if was && !is {
			r.addViolation(oracleLost, fmt.Sprintf(
				"the operator undid somebody else's change of %s: an annotation that is not its own is gone", r.name(c)),
				r.writerOf(c))
			return
		}
		was = is
	}
}

// writerOf returns the operator's request that led to a state, or "".
func (r *run) writerOf(c history.Change) string {
	for _, call := range r.operator.Calls() {
		if call.UID == string(c.Object.GetUID()) && call.Version == c.Object.GetResourceVersion() {
			return call.String()
		}
	}
	return ""
}

func (r *run) checkInvariants() {
	if len(r.x.Never) == 0 {
		return
	}
	var now []client.Object
	for _, c := range r.changes {
		now = slices.DeleteFunc(now, func(o client.Object) bool { return o.GetUID() == c.Object.GetUID() })
		if c.Type != watch.Deleted {
			now = append(now, r.typed(c.Object))
		}
		for _, n := range r.x.Never {
			if wrong := n.Holds(now); wrong != "" {
				r.addViolation(oracleInvariant, n.Name+": "+wrong, "")
			}
		}
	}
}

// typed converts an object to the Go type in the client's scheme, if there is one.
func (r *run) typed(u *unstructured.Unstructured) client.Object {
	typed, err := r.space.Client.Scheme().New(u.GroupVersionKind())
	if err != nil {
		return u
	}
	o, ok := typed.(client.Object)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) != nil {
		return u
	}
	return o
}

func (r *run) checkCounts() {
	if r.baseline == nil || r.plan.SkipCounts || !r.tornDown {
		return
	}
	got := r.counts()
	for group, want := range r.baseline.Counts {
		if n := got[group]; n != want && !r.baseline.UnstableCounts[group] {
			r.addViolation(oracleCounts, fmt.Sprintf("%s was created %s and deleted %s, and without the fault %s and %s",
				group, times(n.Created), times(n.Deleted), times(want.Created), times(want.Deleted)), "")
		}
	}
	for group, n := range got {
		if _, known := r.baseline.Counts[group]; !known && !r.baseline.UnstableCounts[group] {
			r.addViolation(oracleCounts, fmt.Sprintf("%s was created %s, and without the fault never", group, times(n.Created)), "")
		}
	}
}

// checkSecretChanges finds generated values, such as passwords, that were replaced although the baseline keeps them. A
// comparison of states cannot find this, because generated values are masked.
func (r *run) checkSecretChanges() {
	if r.baseline == nil || r.plan.SkipCounts {
		return
	}
	for place, n := range r.secretChanges() {
		if want := r.baseline.SecretChanges[place]; n > want && r.baseline.Mask[place] {
			r.addViolation(oracleEndState, fmt.Sprintf("%s was made up and was replaced %s, and without the fault %s: "+
				"who has read it has the wrong one", place, times(n), times(want)), "")
		}
	}
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

// checkResidue finds objects of the operator that are left after the custom resources were deleted.
func (r *run) checkResidue() {
	if !r.tornDown {
		return
	}
	if r.baseline == nil && len(r.primaries()) == 0 {
		for _, c := range r.residue() {
			r.addViolation(oracleResidue, fmt.Sprintf("%s is left after the custom resources were deleted", r.name(c)),
				describe(c.Object))
		}
	}
	for _, c := range r.operator.Calls() {
		if c.Code == http.StatusCreated && c.Subresource == "" && c.Namespace == "" && !slices.Contains(r.x.Keeps, c.Resource) {
			r.checkClusterScoped(c)
		}
	}
}

// residue returns existing objects that the operator created and that must be deleted with the custom resources.
func (r *run) residue() []history.Change {
	made := created(r.operator.Calls())
	var left []history.Change
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && !slices.Contains(r.x.Keeps, c.Resource.Resource) {
			left = append(left, c)
		}
	}
	return left
}

// checkClusterScoped finds a cluster-scoped object that the operator left, and deletes it.
func (r *run) checkClusterScoped(c intercept.Call) {
	gvk, err := r.space.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil || c.UID == "" {
		return // a kind that is not stored, such as SubjectAccessReview
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := r.space.Client.Get(r.space.Context(), client.ObjectKey{Name: c.Name}, u); err != nil {
		if !apierrors.IsNotFound(err) && r.space.Context().Err() == nil {
			r.infraErr = fmt.Errorf("looking for what is left: %w", err)
		}
		return
	}
	if string(u.GetUID()) == c.UID {
		r.addViolation(oracleResidue, fmt.Sprintf("%s %s, of the whole cluster, is left after the custom resources were deleted",
			u.GetKind(), u.GetName()), describe(u))
		_ = r.space.Client.Delete(r.space.Context(), u) // for later runs
	}
}
