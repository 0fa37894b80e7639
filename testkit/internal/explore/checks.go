package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// checks runs the oracles on the records of a run.
type checks struct{ *run }

// checkAll runs all oracles on the records of the run.
func (ch checks) checkAll() {
	ch.checkCalls()
	ch.checkSpecWrites()
	ch.checkStatusHistory()
	ch.checkLostUpdate()
	ch.checkInvariants()
	ch.checkCounts()
	ch.checkReplacements()
	ch.checkResidue()
	ch.checkPermissions()
	ch.checkPanics()
	ch.checkOutside()
	ch.checkForeign()
}

// checkPanics reports panics. Those of operators in this process are recorded. Package sdk recovers from its own, and
// reports them as a reason. A program has them in its log.
func (ch checks) checkPanics() {
	isProgram := false
	for _, p := range ch.procs.ever() {
		p, ok := p.(interface{ Panics() []string })
		isProgram = isProgram || !ok
		if ok {
			for _, text := range p.Panics() {
				value, stack, _ := strings.Cut(text, "\n")
				ch.addViolation(oraclePanic, "the operator panicked: "+value, stack)
			}
		}
	}
	for _, c := range ch.changes {
		for _, condition := range readiness.Conditions(c.Object) {
			if condition.Reason == "Panic" && ch.writesStatusOf(groupResourceOf(c)) {
				ch.addViolation(oraclePanic, "the operator panicked: "+condition.Message, describe(c.Object))
				isProgram = false // its log has the same panic
			}
		}
	}
	if !isProgram {
		return
	}
	var log []string
	for _, l := range ch.space.Lines() {
		log = append(log, l.Text)
	}
	ch.addViolations(oracle.LoggedPanics(log))
}

func (ch checks) checkCalls() { ch.addViolations(oracle.Calls(ch.operator.Calls())) }

func (ch checks) checkSpecWrites() {
	ch.addViolations(oracle.SpecWrites(ch.operator.Calls(), ch.user.Calls(), ch.changes, ch.statusKinds()))
}

func (ch checks) checkStatusHistory() {
	all := func(history.Change) bool { return true }
	inTime := oracle.BeforeLateWrite(ch.operator.Calls())
	statuses := func(changes []history.Change) []report.Violation {
		return oracle.Statuses(changes, ch.statusKinds(), inTime)
	}
	found := statuses(ch.changes)
	ch.noteEarlier(found, statuses)
	ch.addViolations(found)
	ch.addViolations(oracle.PrematureConditions(ch.changes, ch.statusKinds(), all))
	ch.addViolations(oracle.UnfinishedRollouts(ch.operator.Calls(), ch.changes, ch.statusKinds()))
}

// noteEarlier notes in violations that the states before the first fault violate the rule in the same way.
func (ch checks) noteEarlier(found []report.Violation, check func([]history.Change) []report.Violation) {
	if len(found) == 0 || ch.faultAt.IsZero() {
		return
	}
	end := slices.IndexFunc(ch.changes, func(c history.Change) bool { return c.At.After(ch.faultAt) })
	if end < 0 {
		return
	}
	earlier := check(ch.changes[:end])
	for i := range found {
		same := func(v report.Violation) bool { return v.Message == found[i].Message }
		if slices.ContainsFunc(earlier, same) {
			found[i].Detail = "This happened before the fault: its cause is a race that does not need the fault.\n" + found[i].Detail
		}
	}
}

// checkLostUpdate checks that the annotation of another manager survived.
func (ch checks) checkLostUpdate() {
	was := map[types.UID]bool{}
	for _, c := range ch.changes {
		uid := c.Object.GetUID()
		if !ch.externallyChanged[uid] || c.Type == watch.Deleted {
			continue
		}
		_, is := c.Object.GetAnnotations()[fault.ChangedAnnotation]
		if was[uid] && !is {
			ch.addViolation(oracleLost, fmt.Sprintf(
				"the operator reverted another manager's change of %s: a foreign annotation is gone", ch.name(c)),
				ch.writerOf(c))
			return
		}
		was[uid] = is
	}
}

func (ch checks) checkCounts() {
	if ch.baseline == nil || ch.plan.SkipCounts || !ch.tornDown {
		return
	}
	got := ch.counts()
	for group, want := range ch.baseline.Counts {
		if ch.plan.MergesEvents && got[group].SkipsFrom(want) {
			continue
		}
		if n := got[group]; n != want && !ch.baseline.UnstableCounts[group] {
			ch.addViolation(oracleCounts, fmt.Sprintf("%s was created %s and deleted %s, and without the fault %s and %s",
				group, times(n.Created), times(n.Deleted), times(want.Created), times(want.Deleted)), "")
		}
	}
	for group, n := range got {
		if _, known := ch.baseline.Counts[group]; !known && !ch.baseline.UnstableCounts[group] {
			ch.addViolation(oracleCounts, fmt.Sprintf("%s was created %s, and without the fault never", group, times(n.Created)), "")
		}
	}
}

// checkResidue finds objects of the operator that are left after the custom resources were deleted.
func (ch checks) checkResidue() {
	if !ch.tornDown {
		return
	}
	if ch.baseline == nil && len(ch.primaries()) == 0 {
		for _, c := range ch.residue() {
			if c.Object.GetNamespace() == "" {
				continue // see below
			}
			ch.addViolation(oracleResidue, fmt.Sprintf("%s is left after the custom resources were deleted", ch.name(c)),
				describeResidue(groupResourceOf(c).Resource, c.Object))
		}
		if service, detail := ch.externals.residue(); service != "" {
			ch.addViolation(oracleResidue, service+" has entries after the custom resources were deleted that it had not before "+
				"the first step (-: before, +: after); if they may stay, AllowResidue with "+externalResidue, detail)
		}
	}
	for _, c := range ch.operator.Calls() {
		created := c.Code == http.StatusCreated && c.Subresource == ""
		if created && c.Namespace == "" && !slices.Contains(ch.x.AllowResidue, c.Resource) {
			ch.checkClusterScoped(c)
		}
	}
}

// residueTime is the time within which an object that is being deleted must be gone. The namespace controller needs a part
// of it for an empty Namespace.
const residueTime = 10 * time.Second

// checkClusterScoped finds a cluster-scoped object that the operator left, and deletes it. An object that is being deleted,
// such as a Namespace, gets time for that.
func (ch checks) checkClusterScoped(c intercept.Call) {
	gvk, err := ch.space.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil || c.UID == "" {
		return // a kind that is not stored, such as SubjectAccessReview
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	left := func(ctx context.Context) (over bool, err error) {
		err = ch.space.Client.Get(ctx, client.ObjectKey{Name: c.Name}, u)
		return string(u.GetUID()) != c.UID || u.GetDeletionTimestamp().IsZero(), err
	}
	err = wait.PollUntilContextTimeout(ch.space.Context(), 20*time.Millisecond, residueTime, true, left)
	if err != nil && (!wait.Interrupted(err) || ch.space.Context().Err() != nil) {
		if !apierrors.IsNotFound(err) && ch.space.Context().Err() == nil {
			ch.abort(fmt.Errorf("looking for what is left: %w", err))
		}
		return
	}
	if string(u.GetUID()) == c.UID {
		ch.addViolation(oracleResidue, fmt.Sprintf("%s %s, of the whole cluster, is left after the custom resources were deleted",
			u.GetKind(), u.GetName()), describeResidue(c.Resource, u))
		_ = ch.space.Client.Delete(ch.space.Context(), u) // for later runs
	}
}

// describeResidue describes an object that is left, and how to allow it.
func describeResidue(resource string, u *unstructured.Unstructured) string {
	return fmt.Sprintf("if objects of this kind may remain, allow it with chaos.AllowResidue(%q) or --allow-residue %s\n\n",
		resource, resource) + describe(u)
}

// checkPermissions finds rules with wildcards. An operator without a ServiceAccount of its own has no roles to check.
func (ch checks) checkPermissions() {
	who := ch.procs.credentials()
	if ch.baseline != nil || who == nil || !ch.x.oracleEnabled(oracleRights) {
		return
	}
	ctx := ch.space.Context()
	reviewed := func(err error) bool {
		if err != nil && !errors.Is(err, errNoReview) && ctx.Err() == nil {
			ch.abort(fmt.Errorf("checking the operator's roles: %w", err))
		}
		return err == nil
	}
	self := &authenticationv1.SelfSubjectReview{}
	if !reviewed(who.createReview(ctx, authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"), self)) {
		return
	}
	if slices.Contains(self.Status.UserInfo.Groups, "system:masters") {
		return
	}
	rules := &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ch.space.Namespace},
	}
	resource := authorizationv1.SchemeGroupVersion.WithResource("selfsubjectrulesreviews")
	if !reviewed(who.createReview(ctx, resource, rules)) {
		return
	}
	for _, rule := range rules.Status.ResourceRules {
		if wide := wildcard(rule); wide != "" {
			message := fmt.Sprintf("the operator's roles grant %s: name what it needs", wide)
			ch.addViolation(oracleRights, message, usedPermissions(ch.run, rule))
		}
	}
}
