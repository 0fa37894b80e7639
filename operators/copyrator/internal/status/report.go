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

// The reasons of copies that are not made.
const (
	// ReasonConflict is the reason of a copy that a foreign object or another rule prevents.
	ReasonConflict = "Conflict"
	// ReasonRefused is the reason of a copy that its namespace refuses.
	ReasonRefused = "Refused"
	// ReasonNotAccepted replaces all reasons of a copy in another namespace, if the author of the rule may not know them.
	ReasonNotAccepted = "NotAccepted"
	// ReasonLimit is the reason of a rule that has more sources or copies than it may have.
	ReasonLimit = "LimitExceeded"
)

// maxFailures is the maximal number of failures in a status, and maxMessage that of the bytes in the message of one.
const (
	maxFailures = 20
	maxMessage  = 512
)

// Pass is a reconcile of a rule.
type Pass = sdk.Pass[*v1.CopyratorRule]

// Report collects the result of a reconcile for the status.
type Report struct {
	policy.Placement

	// Rule is the reconciled rule.
	Rule *policy.Rule
	// Sources and Namespaces are the numbers of sources and target namespaces.
	Sources    int
	Namespaces int32
	// Digest identifies the sources and the places of their copies.
	Digest string
	// Content identifies the copied content. It is kept in memory: a digest of secret content would permit guesses.
	Content string
	// Contents has the content of the last time that all copies were up to date.
	Contents *Contents
	// Unreadable are source namespaces that the rule must not read.
	Unreadable []string
	// Limited is a sentence on what the limits leave out, "" if it is nothing.
	Limited string
	// Failures are those of sources.
	Failures []v1.Failure
	// Stored is called when the status has been stored, with the digest that it had before. Optional.
	Stored func(before *v1.CopyratorRuleStatus)
}

// NewFailure returns a failure of a source.
func NewFailure(o metav1.Object, reason, message string) v1.Failure {
	return v1.Failure{Namespace: o.GetNamespace(), Name: o.GetName(), Reason: reason, Message: message}
}

// IgnoreSources reports the number of sources beyond the limit.
func (r *Report) IgnoreSources(n int, limit int64) {
	if n > 0 {
		r.Limited = fmt.Sprintf("%d sources are not copied: the limit of a rule is %d, and the oldest are copied; "+
			"select fewer of them", n, limit)
	}
}

// Write sets the fields known before the copies are written, and registers callbacks for the others.
func (r *Report) Write(p *Pass) {
	status := &p.Object.Status
	status.MatchedSources = int32(r.Sources) //nolint:gosec // etcd cannot hold that many
	status.TargetNamespaces = r.Namespaces
	status.Desired = int32(len(r.Copies)) //nolint:gosec // etcd cannot hold that many
	r.setAuthorized(p)
	r.setLimited(p)
	keptOut := r.keptOut()
	status.Desired += int32(len(keptOut)) //nolint:gosec // etcd cannot hold that many
	shadowed := r.shadowed()
	r.Failures = append(r.Failures, shadowed...)
	if n := len(shadowed) + len(keptOut); n > 0 {
		reason, message := ReasonConflict, "something of the same name comes first: see status.failures"
		if len(keptOut) > 0 {
			reason, message = ReasonNotAccepted, summaryMessage
		}
		p.SetNotReady(reason, "%s", message)
	}
	p.OnPlanExecuted(func(children []conditions.Child) {
		r.countCopies(p, append(children, keptOut...), int32(len(shadowed))) //nolint:gosec // as above
	})
	if before := status.DeepCopy(); r.Stored != nil {
		p.OnStatusUpdated(func() { r.Stored(before) })
	}
}

// keptOut returns the copies that another rule or a refusal keeps out, if the author of the rule may not know which: they
// look like those that an object keeps out.
func (r *Report) keptOut() (all []conditions.Child) {
	if r.Rule.Trusted() {
		return nil
	}
	add := func(namespace, name string) {
		all = append(all, conditions.Child{Kind: r.Rule.Kind, Namespace: namespace, Name: name, Reason: ReasonConflict})
	}
	for _, c := range r.Refused {
		add(c.Namespace, c.Source.Name)
	}
	for _, s := range r.Shadowed {
		for _, namespace := range s.Namespaces {
			add(namespace, s.Source.Name)
		}
	}
	return all
}

// shadowed returns the failures of sources that another source or rule shadows, as far as the author of the rule may know.
func (r *Report) shadowed() (all []v1.Failure) {
	for _, s := range r.Shadowed {
		switch {
		case s.Winner != nil:
			all = append(all, NewFailure(s.Source, ReasonConflict, fmt.Sprintf(
				"source %s/%s has the same name and is older: rename one of them", s.Winner.Namespace, s.Winner.Name)))
		case r.Rule.Trusted():
			all = append(all, NewFailure(s.Source, ReasonConflict, fmt.Sprintf(
				"rule %s copies an object of the same name to %s and comes first: "+
					"rename a source, or exclude the namespaces from one of the rules", s.Rule, summarize(s.Namespaces))))
		}
	}
	return all
}

// summarize joins the first few names and counts the others.
func summarize(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// setAuthorized sets the condition Authorized.
func (r *Report) setAuthorized(p *Pass) {
	if len(r.Unreadable) == 0 {
		message := "every source namespace may be read"
		if !r.Rule.Trusted() {
			message += "; copies are made in namespaces that accept them by the annotation " + policy.AcceptFromAnnotation +
				" with " + r.Rule.Namespace + " in it"
		}
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionTrue, "Granted", "%s", message)
		return
	}
	message := fmt.Sprintf("nothing is copied from namespace %s: "+
		"a rule reads other namespaces than its own if it is in the operator's namespace, "+
		"or if they have the annotation %s with %s in it, or objects in them with that annotation and the label %s",
		summarize(r.Unreadable), policy.AllowFromAnnotation, r.Rule.Namespace, policy.SharedLabel)
	if len(p.Namespaces) > 0 {
		message += "; this Copyrator is restricted to some namespaces"
		if r.Rule.Trusted() {
			message += ": " + summarize(p.Namespaces)
		}
	}
	p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "NotGranted", "%s", message)
	p.SetNotReady("NotAuthorized", "%s", message)
}

// setLimited sets the condition Limited while the limits leave something out.
func (r *Report) setLimited(p *Pass) {
	if r.Limited == "" {
		conditions.Remove(p.Object, v1.ConditionLimited)
		return
	}
	p.SetCondition(v1.ConditionLimited, metav1.ConditionTrue, ReasonLimit, "%s", r.Limited)
	p.SetNotReady(ReasonLimit, "%s", r.Limited)
}

// countCopies counts the copies by state. shadowed is the number of sources that are not copied because of their names.
func (r *Report) countCopies(p *Pass, children []conditions.Child, shadowed int32) {
	status := &p.Object.Status
	status.Synced = 0
	status.Failed = 0
	status.Conflicts = shadowed
	failures := slices.Clone(r.Failures)
	for _, c := range children {
		switch {
		case c.Ready:
			status.Synced++
			continue
		case c.Reason == "Progressing" || c.Reason == "NamespaceTerminating",
			c.Reason == "NamespaceNotFound" && len(p.Namespaces) == 0: // the namespace is gone; the next reconcile observes that
			continue
		case c.Reason == ReasonConflict, r.isHidden(c):
			status.Conflicts++
		}
		status.Failed++
		failures = append(failures, r.failure(c))
	}
	slices.SortStableFunc(failures, func(a, b v1.Failure) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	failures = append(failures, r.refusals()...) // last, because they are no mistake of the rule
	status.Failures = uniqueFailures(failures)
	if status.Conflicts > 0 {
		p.SetCondition(v1.ConditionConflicts, metav1.ConditionTrue, ReasonConflict,
			"%d are kept out by something of the same name, or refused: see status.failures", status.Conflicts)
	} else {
		p.SetCondition(v1.ConditionConflicts, metav1.ConditionFalse, "None", "nothing is in the way")
	}
	if status.Synced == status.Desired {
		p.SetCondition(v1.ConditionSynced, metav1.ConditionTrue, "Synced", "every copy is as it should be")
		r.recordSync(p)
		return
	}
	p.SetCondition(v1.ConditionSynced, metav1.ConditionFalse, "NotSynced",
		"not every copy is as it should be: status.failures says which and why, those on their way apart")
}

// isHidden reports whether the author of the rule may not know why a copy is not made.
func (r *Report) isHidden(c conditions.Child) bool {
	return !r.Rule.Trusted() && c.Namespace != r.Rule.Namespace
}

// failure returns the failure of a copy.
func (r *Report) failure(c conditions.Child) v1.Failure {
	if r.isHidden(c) {
		c.Reason = ReasonNotAccepted
		c.Message = "the namespace does not take this copy: something of the same name, a refusal or another restriction " +
			"keeps it out; rename the source, or ask the owners of the namespace"
	}
	message := c.Message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-len("...")], "") + "..."
	}
	return v1.Failure{Namespace: c.Namespace, Name: c.Name, Reason: c.Reason, Message: message}
}

// refusals returns the entries for refused copies of a trusted rule.
func (r *Report) refusals() (all []v1.Failure) {
	if !r.Rule.Trusted() {
		return nil
	}
	for _, c := range r.Refused {
		all = append(all, v1.Failure{Namespace: c.Namespace, Name: c.Source.Name, Reason: ReasonRefused, Message: fmt.Sprintf(
			"the namespace refuses this copy by a ConfigMap with the label %s: ask its owners, or exclude the namespace",
			policy.RefuseLabel)})
	}
	return all
}

// uniqueFailures returns the first failures, with one for each object: they are a map with these keys.
func uniqueFailures(all []v1.Failure) (unique []v1.Failure) {
	known := map[[2]string]bool{}
	for _, f := range all {
		key := [2]string{f.Namespace, f.Name}
		if len(unique) < maxFailures && !known[key] {
			known[key] = true
			unique = append(unique, f)
		}
	}
	return unique
}

// recordSync records that every copy is up to date, if the content or the places have changed.
func (r *Report) recordSync(p *Pass) {
	status := &p.Object.Status
	if changed := r.Contents.Replace(p.Object.UID, r.Content); status.Digest == r.Digest && !changed {
		return
	}
	status.Digest = r.Digest
	status.LastSyncTime = &metav1.Time{Time: p.Now}
	p.Event("Synced", "all copies are as they should be (copies: %d, sources: %d, namespaces: %d)",
		status.Synced, status.MatchedSources, status.TargetNamespaces)
}
