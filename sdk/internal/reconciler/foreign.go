package reconciler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// removeForeign removes the content of other field managers that the child must not have, from exactly the observed version
// (see sdk.RemoveForeign), and reports whether it did. An apply cannot remove fields of other managers.
func (e *Reconciler) removeForeign(ctx context.Context, p *desired.Pass, s *desired.Child, i *apply.Intent) (bool, error) {
	_, clean := s.Foreign(i)
	if clean == nil || p.Retries.IsKept(s.RetryKey(i), s.Live.GetResourceVersion()) {
		return false, nil
	}
	if err := e.checkContention(ctx, p, s, i); err != nil {
		return false, err
	}
	body, err := client.MergeFromWithOptions(s.Live, client.MergeFromWithOptimisticLock{}).Data(clean)
	if err != nil {
		return false, fmt.Errorf("encoding what to remove from %s: %w", i, err)
	}
	stored := object.Empty(s.Desired)
	stored.SetNamespace(s.Key.Namespace)
	stored.SetName(s.Key.Name)
	err = e.client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, body), client.FieldOwner(e.owner.Name()))
	if err != nil { // a conflict means a stale pass
		return false, e.missing(p, s, i, "removing content of other managers from", err)
	}
	if stored.GetResourceVersion() == s.Live.GetResourceVersion() {
		p.Retries.RecordKept(s.RetryKey(i), stored.GetResourceVersion())
		return false, nil
	}
	e.recordStored(p, s, "", i, stored)
	s.Live = s.Stored
	return true, nil
}
