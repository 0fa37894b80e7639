package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// pollInterval is the interval at which a Wait reads the object.
const pollInterval = 20 * time.Millisecond

// readTimeout bounds a read that begins before the timeout. On a busy machine there has to be at least one.
const readTimeout = 30 * time.Second

// SetUp applies the objects that exist before the operator starts. It may be called again in another namespace.
func (s *Scenario) SetUp(ctx context.Context, c client.Client, namespace string) error {
	if err := apply(ctx, c, namespace, s.Setup); err != nil {
		return fmt.Errorf("setting up %s: %w", s.File, err)
	}
	return nil
}

// Do does the step in a namespace and returns when all its waits are met. The client has to read from the API server
// and not from a cache.
func (s *Step) Do(ctx context.Context, c client.Client, namespace string) error {
	if err := s.Act(ctx, c, namespace); err != nil {
		return err
	}
	return s.Await(ctx, c, namespace)
}

// Act does the step without its waits.
func (s *Step) Act(ctx context.Context, c client.Client, namespace string) error {
	var err error
	switch {
	case s.Patch != nil:
		err = s.Patch.do(ctx, c, namespace)
	case s.Delete != nil:
		err = s.Delete.delete(ctx, c, namespace)
	default:
		err = apply(ctx, c, namespace, s.Apply)
	}
	if err != nil {
		return fmt.Errorf("%s: step %s: %w", s.Position, s.Name, err)
	}
	return nil
}

// Await returns when all waits of the step are met.
func (s *Step) Await(ctx context.Context, c client.Client, namespace string) error {
	for i := range s.Waits {
		if err := s.Waits[i].await(ctx, c, namespace); err != nil {
			return fmt.Errorf("%s: step %s: %w", s.Waits[i].Position, s.Name, err)
		}
	}
	return nil
}

func apply(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		u := object.DeepCopy()
		unstructured.RemoveNestedField(u.Object, "status")
		if err := setNamespace(c, u, namespace); err != nil {
			return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if err := manifest.Apply(ctx, c, u); err != nil {
			return err
		}
	}
	return nil
}

// setNamespace sets the namespace of the object if its kind is namespaced.
func setNamespace(c client.Client, u *unstructured.Unstructured, namespace string) error {
	namespaced, err := c.IsObjectNamespaced(u)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w: add its CustomResourceDefinition to the scenario's crds", err)
	case err != nil:
		return fmt.Errorf("finding out whether it is cluster-wide: %w", err)
	case namespaced:
		u.SetNamespace(namespace)
	default:
		u.SetNamespace("")
	}
	return nil
}

func (p *Patch) do(ctx context.Context, c client.Client, namespace string) error {
	data, err := json.Marshal(p.Merge)
	if err != nil {
		return fmt.Errorf("encoding the patch of %s: %w", p.Target, err)
	}
	u := p.object()
	if err := setNamespace(c, u, namespace); err != nil {
		return fmt.Errorf("patching %s: %w", p.Target, err)
	}
	patch := client.RawPatch(types.MergePatchType, data)
	if p.Subresource == "" {
		err = c.Patch(ctx, u, patch, client.FieldOwner(manifest.FieldOwner))
	} else {
		err = c.SubResource(p.Subresource).Patch(ctx, u, patch, client.FieldOwner(manifest.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("patching %s: %w", p.Target, err)
	}
	return nil
}

func (t Target) delete(ctx context.Context, c client.Client, namespace string) error {
	u := t.object()
	err := setNamespace(c, u, namespace)
	if err == nil {
		err = c.Delete(ctx, u)
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", t, err)
	}
	return nil
}

// await polls until the expectation is met.
func (w *Wait) await(ctx context.Context, c client.Client, namespace string) error {
	u := w.object()
	if err := setNamespace(c, u, namespace); err != nil {
		return fmt.Errorf("waiting for %s: %w", w.Target, err)
	}
	limited, cancel := context.WithTimeout(ctx, w.Timeout+readTimeout)
	defer cancel()
	over := time.After(w.Timeout)
	for {
		missing, err := w.read(limited, c, u)
		switch {
		case err != nil:
			return fmt.Errorf("waiting for %s: %w", w.Target, err)
		case missing == "":
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-over:
			return fmt.Errorf("waiting for %s: not within %v: %s", w.Target, w.Timeout, missing)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", w.Target, ctx.Err(), missing)
		}
	}
}

func (w *Wait) read(ctx context.Context, c client.Client, u *unstructured.Unstructured) (missing string, err error) {
	err = c.Get(ctx, client.ObjectKeyFromObject(u), u)
	switch {
	case apierrors.IsNotFound(err):
		return w.missing(nil), nil
	case err != nil:
		return "", err
	default:
		return w.missing(u), nil
	}
}

// missing returns the difference between the object, nil if absent, and the expectation, or "" if it is met.
func (w *Wait) missing(u *unstructured.Unstructured) string {
	switch {
	case w.Exists != nil && *w.Exists != (u != nil):
		if u == nil {
			return "it does not exist"
		}
		return fmt.Sprintf("it still exists, with the finalizers %q", u.GetFinalizers())
	case w.Exists != nil:
		return ""
	case u == nil:
		return "it does not exist"
	case w.Condition != "":
		return w.missingCondition(u)
	default:
		return w.missingField(u)
	}
}

func (w *Wait) missingCondition(u *unstructured.Unstructured) string {
	observed, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if err == nil && found && observed < u.GetGeneration() {
		return fmt.Sprintf("its status is for generation %d, and the spec is at %d", observed, u.GetGeneration())
	}
	return readiness.MissingCondition(u, w.Condition, w.Status)
}

func (w *Wait) missingField(u *unstructured.Unstructured) string {
	sets, err := w.path.FindResults(u.Object)
	if err != nil {
		return fmt.Sprintf("%s leads nowhere: %v", w.Field, err)
	}
	var values []any
	for _, set := range sets {
		for _, value := range set {
			values = append(values, value.Interface())
		}
	}
	switch {
	case len(values) == 0:
		return w.Field + " is not set"
	case !w.HasValue:
		return ""
	case len(values) > 1:
		return fmt.Sprintf("%s leads to %d values, and should lead to one", w.Field, len(values))
	}
	got, gotErr := json.Marshal(values[0])
	want, wantErr := json.Marshal(w.Value)
	switch {
	case errors.Join(gotErr, wantErr) != nil:
		return fmt.Sprintf("%s cannot be compared: %v", w.Field, errors.Join(gotErr, wantErr))
	case string(got) != string(want):
		return fmt.Sprintf("%s is %s, and should be %s", w.Field, got, want)
	default:
		return ""
	}
}
