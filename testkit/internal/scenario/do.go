package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// SetUp creates the further namespaces and the objects that exist before the operator starts. It may be called again in
// another namespace.
func (s *Scenario) SetUp(ctx context.Context, c client.Client, namespace string) error {
	err := s.createNamespaces(ctx, c, namespace)
	if err == nil {
		err = apply(ctx, c, namespace, s.Setup)
	}
	if err != nil {
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
	return s.Await(ctx, c, namespace, DefaultTimeout)
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

// Await returns when all waits of the step are met. The timeout extends the waits with the default timeout.
func (s *Step) Await(ctx context.Context, c client.Client, namespace string, timeout time.Duration) error {
	for i := range s.Waits {
		w := s.Waits[i]
		if w.Timeout == DefaultTimeout {
			w.Timeout = max(w.Timeout, timeout)
		}
		if err := w.await(ctx, c, namespace); err != nil {
			return fmt.Errorf("%s: step %s: %w", s.Waits[i].Position, s.Name, err)
		}
	}
	return nil
}

func apply(ctx context.Context, c client.Client, namespace string, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		u := object.DeepCopy()
		unstructured.RemoveNestedField(u.Object, "status")
		if err := localize(c, u, namespace); err != nil {
			return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if err := manifest.Apply(ctx, c, u); err != nil {
			return err
		}
	}
	return nil
}

func (p *Patch) do(ctx context.Context, c client.Client, namespace string) error {
	data, err := json.Marshal(expand(p.Merge, namespace))
	if err != nil {
		return fmt.Errorf("encoding the patch of %s: %w", p.Target, err)
	}
	u := p.object()
	if err := localize(c, u, namespace); err != nil {
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
	err := localize(c, u, namespace)
	if err == nil {
		err = c.Delete(ctx, u)
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", t, err)
	}
	return nil
}
