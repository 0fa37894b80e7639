package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// syncMetadata applies the recorded labels and annotations to the object, and removes those of earlier reconciles. Others
// are left alone. It writes only if the object differs.
func (e *Reconciler) syncMetadata(ctx context.Context, p *desired.Pass) (wrote bool, err error) {
	if p.Metadata == nil {
		return false, nil
	}
	applied := object.AppliedMetadata(p.Object, e.owner.Name())
	if maps.Equal(applied.Labels, p.Metadata.Labels) && maps.Equal(applied.Annotations, p.Metadata.Annotations) {
		return false, nil
	}
	apiVersion, kind := e.cache.Primary.ToAPIVersionAndKind()
	body, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": p.Object.GetName(), "uid": p.Object.GetUID(), // never another object of that name
			"labels": p.Metadata.Labels, "annotations": p.Metadata.Annotations,
		},
	})
	if err != nil {
		return false, fmt.Errorf("encoding labels and annotations: %w", err)
	}
	stored := object.Empty(p.Object)
	stored.SetNamespace(p.Object.GetNamespace())
	stored.SetName(p.Object.GetName())
	patch := client.RawPatch(types.ApplyPatchType, body)
	if err := e.client.Patch(ctx, stored, patch, client.FieldOwner(e.owner.Name()), client.ForceOwnership); err != nil {
		return false, fmt.Errorf("applying labels and annotations: %w", retry.MarkOutdated(err))
	}
	e.cache.RecordWrite(e.cache.Primary, "", stored)
	return true, nil
}
