// Package status writes the status of a CopyratorRule.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// ReasonConflict is the reason of a copy that a foreign object prevents.
const ReasonConflict = "Conflict"

// maxFailures is the maximal number of failures in a status.
const maxFailures = 20

// Pass is a reconcile of a rule.
type Pass = sdk.Pass[*v1.CopyratorRule]

// Report collects the result of a reconcile for the status.
type Report struct {
	// Rule is the reconciled rule.
	Rule *policy.Rule
	// Sources, Namespaces and Desired are the numbers of sources, target namespaces and copies.
	Sources             int
	Namespaces, Desired int32
	// Digest identifies the copied content and its places.
	Digest string
	// Unreadable are source namespaces that the rule must not read.
	Unreadable []string
	// Shadowed are sources with another one of their name that comes first.
	Shadowed []policy.Shadowed
	// Failures are those of sources.
	Failures []v1.Failure
	// Stored is called when the status has been stored, with the digest that it had before. Optional.
	Stored func(before string)
}

// NewFailure returns a failure of a source.
func NewFailure(o metav1.Object, reason, message string) v1.Failure {
	return v1.Failure{Namespace: o.GetNamespace(), Name: o.GetName(), Reason: reason, Message: message}
}

// Write sets the fields known before the copies are written, and registers callbacks for the others.
func (r *Report) Write(p *Pass) {
	status := &p.Object.Status
	status.MatchedSources = int32(r.Sources) //nolint:gosec // etcd cannot hold that many
	status.TargetNamespaces = r.Namespaces
	status.Desired = r.Desired
	r.setAuthorized(p)
	for _, s := range r.Shadowed {
		message := fmt.Sprintf("%s has the same name and comes first: rename one of them", s.By)
		r.Failures = append(r.Failures, NewFailure(s.Source, ReasonConflict, message))
	}
	p.OnPlanExecuted(func(children []conditions.Child) { r.countCopies(p, children) })
	if before := status.Digest; r.Stored != nil {
		p.OnStatusUpdated(func() { r.Stored(before) })
	}
}

// setAuthorized sets the condition Authorized.
func (r *Report) setAuthorized(p *Pass) {
	if len(r.Unreadable) == 0 {
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionTrue, "Granted", "every source namespace may be read")
		return
	}
	message := fmt.Sprintf("nothing is copied from namespace %s: "+
		"a rule reads other namespaces than its own if it is in the operator's namespace, "+
		"or if they have the annotation %s with %s in it",
		strings.Join(r.Unreadable, ", "), policy.AllowFromAnnotation, r.Rule.Namespace)
	if len(p.Namespaces) > 0 {
		message += "; this Copyrator is restricted to namespaces " + strings.Join(p.Namespaces, ", ")
	}
	p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "NotGranted", "%s", message)
	p.SetNotReady("NotAuthorized", "%s", message)
}

// countCopies counts the copies by state.
func (r *Report) countCopies(p *Pass, children []conditions.Child) {
	status := &p.Object.Status
	status.Synced = 0
	status.Failed = 0
	status.Conflicts = int32(len(r.Shadowed)) //nolint:gosec // etcd cannot hold that many
	failures := slices.Clone(r.Failures)
	for _, c := range children {
		switch {
		case c.Ready:
			status.Synced++
			continue
		case c.Reason == "Progressing" || c.Reason == "NamespaceTerminating",
			c.Reason == "NamespaceNotFound" && len(p.Namespaces) == 0: // the namespace is gone; the next reconcile observes that
			continue
		case c.Reason == ReasonConflict:
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
		p.SetCondition(v1.ConditionConflicts, metav1.ConditionTrue, ReasonConflict,
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
	if status.Synced == status.Desired && status.Digest != r.Digest {
		status.Digest = r.Digest
		status.LastSyncTime = &metav1.Time{Time: p.Now}
		p.Event("Synced", "all copies are as they should be (copies: %d, sources: %d, namespaces: %d)",
			status.Synced, status.MatchedSources, status.TargetNamespaces)
	}
}
