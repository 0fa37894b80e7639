package sdk

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// problem is a failure with a known row in the error table, and its entry in the conditions.
type problem struct {
	class           class
	reason, message string
	after           time.Duration // time until the next attempt without an event; zero leaves it to events and the resync
	forbidden       bool          // the client lacks a permission or quota; the content may be valid
}

// Error returns the message, preceded by the reason if the operator's author chose it.
func (p *problem) Error() string {
	if p.class == classWait || p.class == classInvalid {
		return p.reason + ": " + p.message
	}
	return p.message
}

// Wait returns an error for Reconcile and Finalize: an external condition must be met first. The object becomes
// Reconciling=True with the reason, a CamelCase word, and the message, a sentence. It does not count as a failure.
func Wait(reason, format string, args ...any) error { return WaitFor(0, reason, format, args...) }

// WaitFor is [Wait] with a time after which the object is reconciled again in any case.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	return &problem{class: classWait, reason: reason, message: fmt.Sprintf(format, args...), after: after}
}

// Invalid returns an error for Reconcile and Finalize: the spec cannot be realized. The object becomes Stalled=True with the
// reason, a CamelCase word, and the message, a sentence that names the fix. It is not retried before the object or one of
// its references changes.
func Invalid(reason, format string, args ...any) error {
	return &problem{class: classInvalid, reason: reason, message: fmt.Sprintf(format, args...)}
}

// Reason returns the reason of an error of [Wait], [WaitFor] or [Invalid], or of a function that returns such an error, such
// as [Ref]. It returns "" for other errors.
func Reason(err error) string {
	if p := mostSevere(err); p != nil && (p.class == classWait || p.class == classInvalid) {
		return p.reason
	}
	return ""
}

func panicked(x any) error {
	return &problem{class: classPanic, reason: "Panic", message: fmt.Sprintf("panic: %v", x)}
}

// class is the row of the error table for a failure.
type class int

const (
	classNone      class = iota
	classStale           // the read state was outdated: retry at once, uncounted
	classOutdated        // the read version of the object itself was outdated: retry when the cache shows a newer one
	classTransient       // a retry may succeed

	// These are classes of a problem. Of several problems the one with the highest class counts.
	classWait      // an external condition must be met first
	classInvalid   // the object must be edited
	classContended // another manager keeps reverting the child
	classRejected  // the API server rejects the child; the end of the cause is not observable
	classConflict  // a conflicting object has the child's name
	classPanic     // a bug in the operator
)

// classify returns the class of an error.
func classify(err error) class {
	switch p := mostSevere(err); {
	case err == nil:
		return classNone
	case p != nil:
		return p.class
	case errors.Is(err, errOutdated):
		return classOutdated
	case errors.Is(err, apply.ErrStale), errors.Is(err, errNotSynced), apierrors.IsConflict(err):
		return classStale
	default:
		return classTransient
	}
}

// mostSevere returns the problem with the highest class among all wrapped errors, or nil.
func mostSevere(err error) *problem {
	switch err := err.(type) { //nolint:errorlint // it walks the whole tree of errors, as errors.As does.
	case *problem:
		return err
	case interface{ Unwrap() error }:
		return mostSevere(err.Unwrap())
	case interface{ Unwrap() []error }:
		var found *problem
		for _, e := range err.Unwrap() {
			if p := mostSevere(e); p != nil && (found == nil || p.class > found.class) {
				found = p
			}
		}
		return found
	}
	return nil
}

// errOutdated means that the object itself was written after it was read.
var errOutdated = errors.New("the object was changed since it was read")

// outdated marks a conflict in a write of the object itself.
func outdated(err error) error {
	if apierrors.IsConflict(err) {
		return errors.Join(errOutdated, err)
	}
	return err
}

// rejection converts the API server's rejection of a child into a problem, or returns err unchanged. It depends only on the
// status code and the machine-readable causes. Values of a Secret never appear in the message.
func rejection(kind, child string, err error) error {
	switch {
	case errors.Is(err, apply.ErrStale): // it may have any status code
		return err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Wait(reasonNamespaceTerminating, "the namespace is being deleted")
	case ofNamespace(err):
		return Wait(reasonNamespaceNotFound, "%s: its namespace does not exist", child)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		message := fmt.Sprintf("%s is refused: %s", child, statusMessage(err))
		if kind == "Secret" {
			message = fmt.Sprintf("%s is refused (%s)", child, apierrors.ReasonForError(err))
		}
		return &problem{
			class: classRejected, reason: kind + "Rejected", message: message, forbidden: apierrors.IsForbidden(err),
		}
	default:
		return err
	}
}

const (
	reasonNamespaceNotFound    = "NamespaceNotFound"
	reasonNamespaceTerminating = "NamespaceTerminating"
)

// ofNamespace reports whether the creation of a child failed because its namespace does not exist.
func ofNamespace(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces"
}

// withQuotaHint adds advice to the rejection of a replacement of the present child. A forbidden creation, for example by a
// quota, may be forbidden only while both exist.
func withQuotaHint(err error) error {
	if problem := mostSevere(err); problem != nil && problem.forbidden {
		problem.message += "; if the replacement does not fit beside the present one, to delete that makes room"
	}
	return err
}

// statusMessage returns the API server's message, by field if there are causes. Only first lines are used: the rest may be a
// dump of the whole object.
func statusMessage(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	first := func(text string) string { line, _, _ := strings.Cut(text, "\n"); return line }
	details := status.Status().Details
	if !apierrors.IsInvalid(err) || details == nil || len(details.Causes) == 0 {
		return first(status.Status().Message)
	}
	messages := make([]string, len(details.Causes))
	for i, c := range details.Causes {
		messages[i] = c.Field + ": " + first(c.Message)
	}
	return joinMessages(messages)
}

// withRealName replaces the random name of a dry-run object in a rejection by the name of the child.
func withRealName(err error, name string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "" {
		return err
	}
	renamed := *status.ErrStatus.DeepCopy()
	renamed.Message = strings.ReplaceAll(renamed.Message, renamed.Details.Name, name)
	return &apierrors.StatusError{ErrStatus: renamed}
}

// invalidFields returns the fields that are named by an Invalid response.
func invalidFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldValueInvalid || c.Type == metav1.CauseTypeForbidden {
			fields = append(fields, c.Field)
		}
	}
	return fields
}

// nondeterministic matches parts of an error that differ between two occurrences of one failure: ports of a client,
// durations, memory addresses.
var nondeterministic = regexp.MustCompile(
	`\d+\.\d+\.\d+\.\d+:\d+->|\[[0-9a-fA-F:]+\]:\d+->|0x[0-9a-f]{6,}|\b\d+(\.\d+)?(ns|µs|ms|s)\b`)

// describe returns the text of a failure for a condition. It is equal for all occurrences of one failure, so that a repeated
// failure does not change the status.
func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the API server did not answer in time"
	}
	return nondeterministic.ReplaceAllString(err.Error(), "")
}

// backoff returns the delay before the n-th consecutive retry, n counting from 1: 0.1 s, doubling up to 5 min.
func backoff(n int) time.Duration {
	const first, limit = 100 * time.Millisecond, 5 * time.Minute
	if n > 12 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// retryAfter returns the delay after a failure: the larger one of the backoff and the delay that the API server suggests.
func retryAfter(err error, failures int) time.Duration {
	d := backoff(failures)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}
