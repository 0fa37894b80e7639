package copyrator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

const reasonConflict = "Conflict"

// maxFailures is the maximal number of failures in a status.
const maxFailures = 20

// report collects the result of a reconcile for the status.
type report struct {
	rule       *desired.Rule
	sources    int
	namespaces int32
	desired    int32
	digest     string
	unreadable []string // source namespaces that the rule must not read
	shadowed   []desired.Shadowed
	failures   []v1.Failure // of sources
}

func failure(o metav1.Object, reason, message string) v1.Failure {
	return v1.Failure{Namespace: o.GetNamespace(), Name: o.GetName(), Reason: reason, Message: message}
}

// writeStatus sets the fields known before the copies are written, and registers callbacks for the others.
func (r *report) writeStatus(p *pass) {
	status := &p.Object.Status
	status.MatchedSources = int32(r.sources) //nolint:gosec // etcd cannot hold that many
	status.TargetNamespaces = r.namespaces
	status.Desired = r.desired
	r.setAuthorized(p)
	for _, s := range r.shadowed {
		message := fmt.Sprintf("%s has the same name and comes first: rename one of them", s.By)
		r.failures = append(r.failures, failure(s.Source, reasonConflict, message))
	}
	p.Report(func(children []conditions.Child) { r.countCopies(p, children) })
	before := status.Digest
	p.OnStatusUpdated(func() { gauges.record(before, p.Object) })
}

// setAuthorized sets the condition Authorized.
func (r *report) setAuthorized(p *pass) {
	if len(r.unreadable) == 0 {
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionTrue, "Granted", "every source namespace may be read")
		return
	}
	message := fmt.Sprintf("nothing is copied from namespace %s: "+
		"a rule reads other namespaces than its own if it is in the operator's namespace, "+
		"or if they have the annotation %s with %s in it",
		strings.Join(r.unreadable, ", "), desired.AllowFromAnnotation, r.rule.Namespace)
	if len(p.Namespaces) > 0 {
		message += "; this Copyrator is restricted to namespaces " + strings.Join(p.Namespaces, ", ")
	}
	p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "NotGranted", "%s", message)
	p.NotReady("NotAuthorized", "%s", message)
}

// countCopies counts the copies by state.
func (r *report) countCopies(p *pass, children []conditions.Child) {
	status := &p.Object.Status
	status.Synced = 0
	status.Failed = 0
	status.Conflicts = int32(len(r.shadowed)) //nolint:gosec // etcd cannot hold that many
	failures := slices.Clone(r.failures)
	for _, c := range children {
		switch {
		case c.Ready:
			status.Synced++
			continue
		case c.Reason == "Progressing" || c.Reason == "NamespaceTerminating",
			c.Reason == "NamespaceNotFound" && len(p.Namespaces) == 0: // the namespace is gone; the next reconcile observes that
			continue
		case c.Reason == reasonConflict:
			status.Conflicts++
		}
		status.Failed++
		failures = append(failures, v1.Failure{Namespace: c.Namespace, Name: c.Name, Reason: c.Reason, Message: c.Message})
	}
	slices.SortStableFunc(failures, func(a, b v1.Failure) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	failures = slices.CompactFunc(failures, func(a, b v1.Failure) bool { // the failures are a map with these keys
		return a.Namespace == b.Namespace && a.Name == b.Name
	})
	status.Failures = failures[:min(len(failures), maxFailures)]
	if status.Conflicts > 0 {
		p.SetCondition(v1.ConditionConflicts, metav1.ConditionTrue, reasonConflict,
			"%d are kept out by something of the same name: see status.failures", status.Conflicts)
	} else {
		p.SetCondition(v1.ConditionConflicts, metav1.ConditionFalse, "None", "nothing is in the way")
	}
	if status.Synced == status.Desired {
		p.SetCondition(v1.ConditionSynced, metav1.ConditionTrue, "Synced", "every copy is as it should be")
	} else {
		p.SetCondition(v1.ConditionSynced, metav1.ConditionFalse, "NotSynced",
			"not every copy is as it should be: status.failures says which and why, those on their way apart")
	}
	if status.Synced == status.Desired && status.Digest != r.digest {
		status.Digest = r.digest
		status.LastSyncTime = &metav1.Time{Time: p.Now}
		p.Event("Synced", "all copies are as they should be (copies: %d, sources: %d, namespaces: %d)",
			status.Synced, status.MatchedSources, status.TargetNamespaces)
	}
}
