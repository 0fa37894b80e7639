package validity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DryRun is the validator that sends dry-run requests to the API server. Nothing is stored.
//
// Limits: a webhook that does not declare that it has no side effects makes the server reject every dry run. A webhook
// that denies with a code other than 400, 403, 413 or 422 appears as a failure. A client without the permission to
// create the objects gets all of them rejected. In each case the sentence says so.
type DryRun struct {
	// Client determines the permissions and the view of the requests. It must not read from a cache.
	Client client.Client
	// Namespace is used for objects that name none. It is empty for cluster-scoped ones, unless Suffix is set.
	Namespace string
	// Suffix appends -Namespace to the names of objects, which are cluster-scoped.
	Suffix bool
}

// Validate sends a create, or an update if from is given. For an update the stored object has to equal from, because rules
// that compare with the old object see the stored one.
func (d DryRun) Validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	return server{d.Client, d.Namespace, d.Suffix, true}.validate(ctx, from, to)
}

// Store is the validator that stores valid objects. It sends the requests of DryRun, and has the same limits.
type Store struct {
	// Client sends the requests. It must not read from a cache.
	Client client.Client
	// Namespace is used for objects that name none. It is empty for cluster-scoped ones, unless Suffix is set.
	Namespace string
	// Suffix appends -Namespace to the names of objects, which are cluster-scoped.
	Suffix bool
}

// Validate sends a create, or an update if from is given. In that case from has to be the last stored object. Metadata
// that other actors added to the stored object is kept.
func (s Store) Validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	return server{s.Client, s.Namespace, s.Suffix, false}.validate(ctx, from, to)
}

// server sends requests to the API server.
type server struct {
	client    client.Client
	namespace string
	suffix    bool
	dry       bool
}

func (s server) validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	to = to.DeepCopy()
	switch {
	case s.suffix:
		to.SetName(to.GetName() + "-" + s.namespace)
	case to.GetNamespace() == "":
		to.SetNamespace(s.namespace)
	}
	var err error
	if from == nil {
		err = s.create(ctx, to)
	} else {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.update(ctx, from, to) })
	}
	if err == nil {
		return Verdict{Valid: true}, nil
	}
	if verdict, refused := rejection(err); refused {
		return verdict, nil
	}
	if s.dry {
		return Verdict{}, fmt.Errorf("asking the API server whether %s %s is valid: %w", to.GetKind(), to.GetName(), err)
	}
	return Verdict{}, fmt.Errorf("storing %s %s: %w", to.GetKind(), to.GetName(), err)
}

func (s server) create(ctx context.Context, to *unstructured.Unstructured) error {
	obj := to.DeepCopy()
	obj.SetResourceVersion("")
	obj.SetUID("")
	opts := []client.CreateOption{client.FieldValidation(metav1.FieldValidationStrict)}
	if s.dry {
		opts = append(opts, client.DryRunAll)
	}
	err := s.client.Create(ctx, obj, opts...)
	if s.dry && apierrors.IsAlreadyExists(err) {
		return nil // The server checks for an existing name last, after all validation and admission.
	}
	return err
}

func (s server) update(ctx context.Context, from, to *unstructured.Unstructured) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(to.GroupVersionKind())
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(to), stored); err != nil {
		return fmt.Errorf("reading the stored object: %w", err)
	}
	opts := []client.UpdateOption{client.FieldValidation(metav1.FieldValidationStrict)}
	if s.dry {
		opts = append(opts, client.DryRunAll)
	}
	return s.client.Update(ctx, mergeManifest(stored, from, to), opts...)
}

// mergeManifest returns the stored object with the manifest's content. Of the metadata only the labels and annotations
// that the manifests name are changed. Metadata of the operator, such as its finalizer, is kept.
func mergeManifest(stored, from, to *unstructured.Unstructured) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: maps.Clone(to.Object)}
	obj.Object["metadata"] = stored.Object["metadata"]
	obj = obj.DeepCopy()
	obj.SetLabels(merged(stored.GetLabels(), from.GetLabels(), to.GetLabels()))
	obj.SetAnnotations(merged(stored.GetAnnotations(), from.GetAnnotations(), to.GetAnnotations()))
	return obj
}

func merged(stored, from, to map[string]string) map[string]string {
	result := maps.Clone(stored)
	maps.DeleteFunc(result, func(key, _ string) bool { _, ours := from[key]; return ours })
	if result == nil && len(to) > 0 {
		result = map[string]string{}
	}
	maps.Copy(result, to)
	return result
}

// rejection reports whether an error is an answer about the object, and returns the verdict.
func rejection(err error) (Verdict, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return Verdict{}, false
	}
	status := answer.Status()
	switch status.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
	default:
		return Verdict{}, false
	}
	verdict := Verdict{Sentence: status.Message}
	if status.Details != nil {
		for _, c := range status.Details.Causes {
			verdict.Causes = append(verdict.Causes, Cause{Field: c.Field, Reason: string(c.Type), Message: c.Message})
		}
	}
	if len(verdict.Causes) == 0 {
		verdict.Causes = []Cause{{Reason: string(status.Reason), Message: status.Message}}
	}
	return verdict, true
}
