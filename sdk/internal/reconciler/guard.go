package reconciler

import (
	"context"

	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// syncFinalizer adds the finalizer, or removes it if it is no longer needed. If it writes, runPass ends the reconcile: the
// finalizer is stored before the first effect that needs it.
func (e *Reconciler) syncFinalizer(ctx context.Context, p *desired.Pass, needed bool) (wrote bool, err error) {
	change := finalizer.Remove
	if needed {
		change = finalizer.Add
	}
	wrote, err = change(ctx, e.client, p.Object, e.op.FinalizerName)
	if wrote {
		e.cache.RecordWrite(e.cache.Primary, "", object.Copy(p.Object))
	}
	return wrote, retry.MarkOutdated(err)
}
