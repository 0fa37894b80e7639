package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

// goneTimeout bounds the wait for a deletion in a rehearsal. No operator is running that would remove a finalizer.
const goneTimeout = 3 * time.Second

// Rehearse executes the scenario without an operator and without waits, to find objects that the API server does not
// know or rejects. The error is an [*Error] with the line. The namespace is not usable afterwards. Further namespaces and
// cluster-scoped objects of the steps are deleted.
func (s *Scenario) Rehearse(ctx context.Context, c client.Client, namespace string) (err error) {
	defer func() { err = errors.Join(err, s.cleanUp(context.WithoutCancel(ctx), c, namespace)) }()
	if err := s.createNamespaces(ctx, c, namespace); err != nil {
		return fmt.Errorf("rehearsing %s: %w", s.File, err)
	}
	for _, object := range s.Setup {
		if err := s.rehearseApply(ctx, c, namespace, object); err != nil {
			return err
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		for _, object := range step.Apply {
			if u := object.DeepCopy(); localize(c, u, namespace) == nil && u.GetNamespace() == "" &&
				!strings.Contains(u.GetName(), namespace) {
				return s.errorAt(object, "metadata.name", "%s %s is cluster-scoped, and all runs would share it: "+
					"call it %[2]s-{namespace}, or move it to setup", u.GetKind(), u.GetName())
			}
			if err := s.rehearseApply(ctx, c, namespace, object); err != nil {
				return err
			}
		}
		for _, w := range step.Waits {
			if _, err := c.IsObjectNamespaced(w.object()); meta.IsNoMatchError(err) {
				return unknown(w.Position, w.Target)
			}
		}
		if over, err := step.rehearseChange(ctx, c, namespace); over || err != nil {
			return err
		}
	}
	return nil
}

func (s *Scenario) rehearseApply(
	ctx context.Context, c client.Client, namespace string, object *unstructured.Unstructured,
) error {
	u := object.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "status")
	err := localize(c, u, namespace)
	if meta.IsNoMatchError(err) {
		return s.errorAt(object, "kind", "the API server knows no %s in %s: correct it, or add its CustomResourceDefinition",
			u.GetKind(), u.GetAPIVersion())
	}
	if err == nil {
		err = manifest.Apply(ctx, c, u)
	}
	if refusal, field, ok := rejection(err); ok {
		return s.errorAt(object, field, "the API server refuses %s %s: %s: correct it",
			object.GetKind(), object.GetName(), refusal)
	}
	if err != nil {
		return fmt.Errorf("rehearsing %s: %w", s.File, err)
	}
	return nil
}

// cleanUp deletes what the rehearsal has created outside of its namespace. No operator is running that would remove a
// finalizer.
func (s *Scenario) cleanUp(ctx context.Context, c client.Client, namespace string) error {
	var errs []error
	for i := range s.Steps {
		for _, object := range s.Steps[i].Apply {
			u := object.DeepCopy()
			if localize(c, u, namespace) != nil || u.GetNamespace() != "" || !strings.Contains(u.GetName(), namespace) {
				continue
			}
			errs = append(errs, Remove(ctx, c, u))
		}
	}
	for _, name := range s.Namespaces {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("Namespace")
		u.SetName(runname.Further(namespace, name))
		errs = append(errs, Remove(ctx, c, u))
	}
	return errors.Join(errs...)
}

// errorAt returns an error about a field of an object, at the position where it was read.
func (s *Scenario) errorAt(object *unstructured.Unstructured, field, format string, args ...any) error {
	o := s.origin[object]
	return o.doc.errorf(locate(o.node, field), format, args...)
}

func unknown(at Position, t Target) error {
	return &Error{Position: at, Message: fmt.Sprintf(
		"the API server knows no %s in %s: correct it, or add its CustomResourceDefinition", t.Kind.Kind, t.Kind.GroupVersion())}
}

// rehearseChange patches or deletes. The operator may be meant to create an absent object. It reports whether no later
// step can be rehearsed.
func (s *Step) rehearseChange(ctx context.Context, c client.Client, namespace string) (over bool, err error) {
	switch {
	case s.Patch != nil:
		err = s.Patch.do(ctx, c, namespace)
	case s.Delete != nil:
		err = s.Delete.delete(ctx, c, namespace)
	default:
		return false, nil
	}
	refusal, _, wrong := rejection(err)
	switch {
	case meta.IsNoMatchError(err):
		return true, unknown(s.Position, *s.subject())
	case wrong:
		return true, &Error{Position: s.Position, Message: fmt.Sprintf(
			"the API server refuses step %s: %s: correct it", s.Name, refusal)}
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return true, fmt.Errorf("rehearsing step %s: %w", s.Name, err)
	case s.Delete != nil:
		gone := Wait{Target: *s.Delete, Exists: new(false), Timeout: goneTimeout}
		return gone.await(ctx, c, namespace) != nil, nil
	}
	return false, nil
}

// rejection extracts the message and the field from an API error about an object. It returns false for other errors.
func rejection(err error) (message, field string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", "", false
	}
	switch status.Status().Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonForbidden:
	default:
		return "", "", false
	}
	message = status.Status().Message
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 && details.Causes[0].Field != "" {
		cause := details.Causes[0]
		return cause.Field + ": " + cause.Message, cause.Field, true
	}
	return strings.ReplaceAll(message, "\n", " "), "", true
}
