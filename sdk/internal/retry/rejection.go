package retry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// Rejection converts the API server's rejection of a child into a problem, or returns err unchanged. It depends only on the
// status code and the machine-readable causes. Values of a Secret never appear in the message.
func Rejection(kind, child string, err error) error {
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
		return &ReconcileError{
			Class: ClassRejected, Reason: kind + "Rejected", Message: message, Forbidden: apierrors.IsForbidden(err),
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

// WithQuotaHint adds advice to the rejection of a replacement of the present child. A forbidden creation, for example by a
// quota, may be forbidden only while both exist.
func WithQuotaHint(err error) error {
	if problem := MostSevere(err); problem != nil && problem.Forbidden {
		problem.Message += "; if the replacement does not fit beside the present one, to delete that makes room"
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
	return JoinMessages(messages)
}

// ReplaceGeneratedName replaces the random name of a dry-run object in a rejection by the name of the child.
func ReplaceGeneratedName(err error, name string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "" {
		return err
	}
	renamed := *status.ErrStatus.DeepCopy()
	renamed.Message = strings.ReplaceAll(renamed.Message, renamed.Details.Name, name)
	return &apierrors.StatusError{ErrStatus: renamed}
}

// InvalidFields returns the fields that are named by an Invalid response.
func InvalidFields(err error) []string {
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

// JoinMessages joins the first few messages and counts the others, so that a large plan has a short and stable message.
func JoinMessages(messages []string) string {
	const shown = 3
	slices.Sort(messages)
	if len(messages) <= shown {
		return strings.Join(messages, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(messages[:shown], "; "), len(messages)-shown)
}
