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

// problem is a failure whose row of the error table is known, and what the summary says of it.
type problem struct {
	class           class
	reason, message string
	after           time.Duration // until the next look although nothing happens; zero leaves it to events and the resync
	forbidden       bool          // it is refused because of who asks, and not because of what it says
}

// Error returns the message, and before it the reason if the operator's author chose it.
func (p *problem) Error() string {
	if p.class == classWait || p.class == classInvalid {
		return p.reason + ": " + p.message
	}
	return p.message
}

// Wait is returned by Reconcile and Finalize when something outside must happen first. The object becomes
// Reconciling=True with the reason, a CamelCase word, and the message, a sentence; it is not an error and is not counted as
// one.
func Wait(reason, format string, args ...any) error { return WaitFor(0, reason, format, args...) }

// WaitFor is [Wait] with a time after which the operator looks again in any case.
func WaitFor(after time.Duration, reason, format string, args ...any) error {
	return &problem{class: classWait, reason: reason, message: fmt.Sprintf(format, args...), after: after}
}

// Invalid is returned by Reconcile and Finalize when the spec cannot be carried out as it is. The object becomes
// Stalled=True with the reason, a CamelCase word, and the message, a sentence that names the fix. It is not retried before
// the object or something it refers to changes.
func Invalid(reason, format string, args ...any) error {
	return &problem{class: classInvalid, reason: reason, message: fmt.Sprintf(format, args...)}
}

// Reason returns the reason that an error was made with by [Wait], [WaitFor], [Invalid] or a function that returns such an
// error, such as [Ref]; "" if it is another one.
func Reason(err error) string {
	if p := gravest(err); p != nil && (p.class == classWait || p.class == classInvalid) {
		return p.reason
	}
	return ""
}

func panicked(x any) error {
	return &problem{class: classPanic, reason: "Panic", message: fmt.Sprintf("panic: %v", x)}
}

// class is the row of the error table that a failure belongs to.
type class int

const (
	classNone      class = iota
	classStale           // we looked at an old state: look again, at once and uncounted
	classOutdated        // we looked at an old version of the object itself: look again when we see the new one
	classTransient       // it may work the next time

	// These are a problem's. Of several, the one that comes last counts.
	classWait      // something outside must happen first
	classInvalid   // somebody must edit the object
	classContended // somebody keeps reverting us
	classRejected  // the API server refuses this child; somebody must act, but we cannot see when they did
	classConflict  // an object of that name belongs to somebody else
	classPanic     // a bug in the operator
)

// classify puts an error in the error table.
func classify(err error) class {
	switch p := gravest(err); {
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

// gravest returns the gravest problem among all that an error wraps, or nil.
func gravest(err error) *problem {
	switch err := err.(type) { //nolint:errorlint // it is the walk that errors.As makes, to the end.
	case *problem:
		return err
	case interface{ Unwrap() error }:
		return gravest(err.Unwrap())
	case interface{ Unwrap() []error }:
		var found *problem
		for _, e := range err.Unwrap() {
			if p := gravest(e); p != nil && (found == nil || p.class > found.class) {
				found = p
			}
		}
		return found
	}
	return nil
}

// errOutdated means that the object itself was written since it was read.
var errOutdated = errors.New("the object was changed since it was read")

// outdated marks the conflict of a write of the object itself.
func outdated(err error) error {
	if apierrors.IsConflict(err) {
		return errors.Join(errOutdated, err)
	}
	return err
}

// rejection turns the API server's refusal of a child into an error of its own, or returns err as it is. Only the code
// and the machine-readable causes decide. Values of a Secret never reach the message.
func rejection(kind, child string, err error) error {
	switch {
	case errors.Is(err, apply.ErrStale): // which may be told with a code of its own
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

// ofNamespace reports whether a child could not be made because its namespace does not exist.
func ofNamespace(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Kind == "namespaces"
}

// crowded adds a way out to the refusal of a child that would replace the present one. What is forbidden, such as by a
// quota, may be so only as long as both are there.
func crowded(err error) error {
	if refusal := gravest(err); refusal != nil && refusal.forbidden {
		refusal.message += "; if the replacement does not fit beside the present one, to delete that makes room"
	}
	return err
}

// statusMessage returns what the API server says, field by field if it does. Only first lines are taken: what follows may
// be a dump of the whole object.
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
	return list(messages)
}

// renamed gives the refusal of a probe, which had a random name, the name that its reader knows.
func renamed(err error, name string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "" {
		return err
	}
	answer := *status.ErrStatus.DeepCopy()
	answer.Message = strings.ReplaceAll(answer.Message, answer.Details.Name, name)
	return &apierrors.StatusError{ErrStatus: answer}
}

// causes returns the fields that an Invalid answer blames.
func causes(err error) []string {
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

// What differs between two occurrences of one failure: a client's port, a duration, an address of memory.
var volatile = regexp.MustCompile(
	`\d+\.\d+\.\d+\.\d+:\d+->|\[[0-9a-fA-F:]+\]:\d+->|0x[0-9a-f]{6,}|\b\d+(\.\d+)?(ns|µs|ms|s)\b`)

// describe returns the text of a failure for a condition. It is the same for every occurrence of one failure, so that a
// repeated failure is not a change of status.
func describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the API server did not answer in time"
	}
	return volatile.ReplaceAllString(err.Error(), "")
}

// backoff is how long to wait before the n-th retry in a row, n counting from 1: 0.1 s, doubling up to 5 min.
func backoff(n int) time.Duration {
	const first, limit = 100 * time.Millisecond, 5 * time.Minute
	if n > 12 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// retryAfter is how long to wait after this failure: what the server asks for, and the backoff if that is longer.
func retryAfter(err error, failures int) time.Duration {
	d := backoff(failures)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}
