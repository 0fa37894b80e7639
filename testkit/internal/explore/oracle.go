package explore

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/wire"
)

// The oracles, by the names by which they are reported and switched off.
const (
	oracleScenario  = "scenario"             // a step waits for something that does not come
	oracleEndState  = "end-state"            // what came of a step is not what came of it without the fault
	oracleCounts    = "creations"            // objects were made or deleted more or less often
	oracleAtRest    = "writes-at-rest"       // the operator does not come to rest
	oracleRestart   = "writes-after-restart" // a restart changes something that was as it should be
	oracleResidue   = "residue"              // something is left after the custom resource was deleted
	oracleForbidden = "forbidden"            // the operator's roles lack a right
	oracleRefused   = "refused"              // the API server refuses what the operator sends
	oracleStatus    = "status"               // the status is not valid, or not true
	oracleSpec      = "spec-written"         // the operator changes the spec of what it is told by
	oracleLost      = "lost-update"          // the operator undoes somebody else's change of what is not its own
	oracleExit      = "exit"                 // the operator ended, or stopped working
	oracleNever     = "never"                // a state that must not be
	oracleRights    = "rights"               // the roles grant more than anybody needs
)

// Oracles are the names of all oracles.
func Oracles() []string {
	return []string{
		oracleScenario, oracleEndState, oracleCounts, oracleAtRest, oracleRestart, oracleResidue, oracleForbidden,
		oracleRefused, oracleStatus, oracleSpec, oracleLost, oracleExit, oracleNever,
		oracleRights,
	}
}

// judge looks at everything that happened in the run.
func (r *run) judge() {
	r.judgeCalls()
	r.judgeSpec()
	r.judgeStatus()
	r.judgeTouched()
	r.judgeNever()
	r.judgeCounts()
	r.judgeResidue()
	r.judgeRights()
}

func (r *run) judgeCalls() {
	for _, c := range r.wire.Calls() {
		if !c.Reached || wire.IsLease(c.Request) && c.Code != http.StatusForbidden {
			continue
		}
		switch c.Code {
		case http.StatusForbidden:
			if !r.isNamespaceGone(c) {
				r.violate(oracleForbidden, "the operator's roles lack a right that it uses: "+rule(c), c.Message)
			}
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			if !r.isStale(c) {
				r.violate(oracleRefused, fmt.Sprintf("the API server refuses what the operator sends: %s", c.Request), c.Message)
			}
		}
	}
}

// isNamespaceGone tells the refusal to create something in a namespace that is being deleted from a missing right.
func (r *run) isNamespaceGone(c wire.Call) bool {
	return slices.Contains(c.Causes, string(corev1.NamespaceTerminatingCause))
}

// isStale tells the refusal of a write that was computed from an object which is gone, which is another way to say 409:
// the request carries a UID that is not the one of the object of that name.
func (r *run) isStale(c wire.Call) bool {
	return c.Code == http.StatusUnprocessableEntity && metadataOf(c.Sent).UID != ""
}

// rule is the RBAC rule that would allow the call.
func rule(c wire.Call) string {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	verb := c.Verb
	if verb == "apply" {
		verb = "patch"
	}
	return fmt.Sprintf("apiGroups: [%q], resources: [%q], verbs: [%q]", c.Group, resource, verb)
}

// judgeSpec finds writes of the operator that changed the generation of an object of the scenario's.
func (r *run) judgeSpec() {
	theirs := created(r.user.Calls())
	wrote := map[string]wire.Call{}
	for _, c := range r.wire.Calls() {
		if theirs[types.UID(c.UID)] && c.Subresource == "" && c.Verb != "delete" && c.Code < http.StatusMultipleChoices {
			wrote[c.UID+"@"+c.Version] = c
		}
	}
	last := map[types.UID]int64{}
	for _, c := range r.changes {
		uid, generation := c.Object.GetUID(), c.Object.GetGeneration()
		call, ours := wrote[string(uid)+"@"+c.Object.GetResourceVersion()]
		going := c.Object.GetDeletionTimestamp() != nil // which is a new generation, too, by whoever deleted it
		if before, known := last[uid]; ours && known && !going && generation > before && r.statusKind(kindOf(c)) {
			r.violate(oracleSpec, fmt.Sprintf("the operator changed the spec of %s, which is the user's", r.name(c)), call.String())
		}
		last[uid] = generation
	}
}

// statusKind reports whether the operator writes the status of objects of this kind.
func (r *run) statusKind(kind wire.Kind) bool {
	if r.known != nil && r.known.status[kind] {
		return true
	}
	return slices.ContainsFunc(r.wire.Calls(), func(c wire.Call) bool {
		return c.Subresource == "status" && c.Writes() && wire.KindOf(c.Request) == kind
	})
}

func (r *run) judgeStatus() {
	last := map[types.UID][]metav1.Condition{}
	for _, c := range r.changes {
		if c.Type == watch.Deleted || !r.statusKind(kindOf(c)) {
			continue
		}
		conditions, wrong := conditionsOf(c.Object)
		if wrong == "" {
			wrong = moved(last[c.Object.GetUID()], conditions)
		}
		if wrong != "" {
			r.violate(oracleStatus, fmt.Sprintf("the status of %s is not valid: %s", r.name(c), wrong), describe(c.Object))
		}
		last[c.Object.GetUID()] = conditions
	}
}

// conditionsOf reads the conditions and says what is not valid about them.
func conditionsOf(u *unstructured.Unstructured) (conditions []metav1.Condition, wrong string) {
	observed, ok, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
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
		text := func(name string) string { s, _ := m[name].(string); return s }
		c := metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason")}
		if at, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
			c.LastTransitionTime = metav1.NewTime(at)
		}
		c.ObservedGeneration, _ = m["observedGeneration"].(int64)
		switch {
		case c.Type == "":
			return nil, "a condition has no type"
		case seen[c.Type]:
			return nil, fmt.Sprintf("condition %s is there twice", c.Type)
		case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse && c.Status != metav1.ConditionUnknown:
			return nil, fmt.Sprintf("condition %s has status %q, which is none of True, False and Unknown", c.Type, c.Status)
		case c.ObservedGeneration > u.GetGeneration():
			return nil, fmt.Sprintf("condition %s has observed generation %d, and the object is at %d",
				c.Type, c.ObservedGeneration, u.GetGeneration())
		}
		seen[c.Type] = true
		conditions = append(conditions, c)
	}
	return conditions, ""
}

// moved finds a transition time that changed although the status did not.
func moved(before, after []metav1.Condition) string {
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

// untrue looks at what the status says when the operator is at rest: now it must be true. It returns nil if it is.
func (r *run) untrue(step int) *report.Violation {
	if !r.x.has(oracleStatus) {
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
			if !metav1.IsControlledBy(other.Object, c.Object) || !hasStatus(other.Object) {
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

// hasStatus reports whether anybody tells how the object fares: without controllers nobody does.
func hasStatus(u *unstructured.Unstructured) bool {
	status, ok := u.Object["status"].(map[string]any)
	return ok && len(status) > 0
}

// judgeTouched finds out whether somebody else's annotation survived.
func (r *run) judgeTouched() {
	if r.touched == "" {
		return
	}
	was := false
	for _, c := range r.changes {
		if c.Object.GetUID() != r.touched || c.Type == watch.Deleted {
			continue
		}
		_, is := c.Object.GetAnnotations()[touched]
		if was && !is {
			r.violate(oracleLost, fmt.Sprintf(
				"the operator undid somebody else's change of %s: an annotation that is not its own is gone", r.name(c)),
				r.writerOf(c))
			return
		}
		was = is
	}
}

// writerOf says by which of the operator's requests a state came about.
func (r *run) writerOf(c history.Change) string {
	for _, call := range r.wire.Calls() {
		if call.UID == string(c.Object.GetUID()) && call.Version == c.Object.GetResourceVersion() {
			return call.String()
		}
	}
	return ""
}

func (r *run) judgeNever() {
	if len(r.x.Never) == 0 {
		return
	}
	var now []history.Change
	for _, c := range r.changes {
		now = slices.DeleteFunc(now, func(o history.Change) bool { return o.Object.GetUID() == c.Object.GetUID() })
		if c.Type != watch.Deleted {
			now = append(now, c)
		}
		for _, n := range r.x.Never {
			if wrong := n.Holds(now); wrong != "" {
				r.violate(oracleNever, n.Name+": "+wrong, "")
			}
		}
	}
}

func (r *run) judgeCounts() {
	if r.known == nil || r.plan.uncount || !r.ended {
		return
	}
	got := r.counts()
	for group, want := range r.known.counts {
		if n := got[group]; n != want && !r.known.countless[group] {
			r.violate(oracleCounts, fmt.Sprintf("%s was created %s and deleted %s, and without the fault %s and %s",
				group, times(n.Created), times(n.Deleted), times(want.Created), times(want.Deleted)), "")
		}
	}
	for group, n := range got {
		if _, known := r.known.counts[group]; !known && !r.known.countless[group] {
			r.violate(oracleCounts, fmt.Sprintf("%s was created %s, and without the fault never", group, times(n.Created)), "")
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

// judgeResidue finds what the operator made and what is still there although the custom resources are gone.
func (r *run) judgeResidue() {
	if !r.ended {
		return
	}
	if r.known == nil && len(r.primaries()) == 0 {
		for _, c := range r.residue() {
			r.violate(oracleResidue, fmt.Sprintf("%s is left after the custom resources were deleted", r.name(c)),
				describe(c.Object))
		}
	}
	for _, c := range r.wire.Calls() {
		if c.Code == http.StatusCreated && c.Subresource == "" && c.Namespace == "" && !slices.Contains(r.x.Keeps, c.Resource) {
			r.judgeClusterWide(c)
		}
	}
}

// residue are the objects that the operator made, that are there still, and that may not stay.
func (r *run) residue() []history.Change {
	made := created(r.wire.Calls())
	var left []history.Change
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && !slices.Contains(r.x.Keeps, c.Resource.Resource) {
			left = append(left, c)
		}
	}
	return left
}

// judgeClusterWide looks for an object of the whole cluster that the operator made, and deletes it.
func (r *run) judgeClusterWide(c wire.Call) {
	gvk, err := r.k.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil || c.UID == "" {
		return // not a kind that is stored, such as a SubjectAccessReview
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := r.k.Client.Get(r.k.Context(), client.ObjectKey{Name: c.Name}, u); err != nil {
		if !apierrors.IsNotFound(err) && r.k.Context().Err() == nil {
			r.broken = fmt.Errorf("looking for what is left: %w", err)
		}
		return
	}
	if string(u.GetUID()) == c.UID {
		r.violate(oracleResidue, fmt.Sprintf("%s %s, of the whole cluster, is left after the custom resources were deleted",
			u.GetKind(), u.GetName()), describe(u))
		_ = r.k.Client.Delete(r.k.Context(), u) // for the runs that follow
	}
}
