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

// DryRun is the oracle that asks the API server, by requests that it carries out except for storing the result.
//
// Limits: a webhook that does not declare that it has no side effects makes the server refuse every dry run, and one
// that denies with a code other than 400, 403, 413 or 422 looks like a failure. A client without the right to create
// the objects has them all refused. In each case the sentence says so.
type DryRun struct {
	// Client is whose rights and view count. It must not read from a cache.
	Client client.Client
	// Namespace is where objects are looked for that name none. Leave it empty for cluster-wide ones.
	Namespace string
}

// Judge sends a create, or an update if from is given. In that case the object has to be stored and be as from says:
// rules that compare with the old object see the stored one.
func (d DryRun) Judge(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	return server{d.Client, d.Namespace, true}.judge(ctx, from, to)
}

// Store is the oracle that does it: what it finds valid is stored. It asks as DryRun does, and has the same limits.
type Store struct {
	// Client is who stores. It must not read from a cache.
	Client client.Client
	// Namespace is where objects are stored that name none. Leave it empty for cluster-wide ones.
	Namespace string
}

// Judge sends a create, or an update if from is given, which has to be what was stored last. What others have put into
// the stored object's metadata stays.
func (s Store) Judge(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	return server{s.Client, s.Namespace, false}.judge(ctx, from, to)
}

// server asks the API server.
type server struct {
	client    client.Client
	namespace string
	dry       bool
}

func (s server) judge(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	to = to.DeepCopy()
	if to.GetNamespace() == "" {
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
	if verdict, refused := refusal(err); refused {
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
		return nil // The server looks for the name last, after all validation and admission.
	}
	return err //nolint:wrapcheck // the caller wraps
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
	return s.client.Update(ctx, over(stored, from, to), opts...) //nolint:wrapcheck // the caller wraps
}

// over is the stored object with the manifest's content. Of the metadata only the labels and annotations change that
// the manifests name: what the operator put there, such as its finalizer, stays.
func over(stored, from, to *unstructured.Unstructured) *unstructured.Unstructured {
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

// refusal tells an answer about the object from the lack of one.
func refusal(err error) (Verdict, bool) {
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
