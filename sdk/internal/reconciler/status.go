package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// writeStatus stores the status if it differs from the stored one, and then sends the events. The request carries the
// resourceVersion that was read (optimistic concurrency): a status computed from one version is never written to another.
func (e *Reconciler) writeStatus(ctx context.Context, from desired.Object, p *desired.Pass) (bool, error) {
	status.KeepTransitionTimes(from, p.Object)
	before, after := object.Status(from), object.Status(p.Object)
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	body, err := statusPatch(p.Object, before, after)
	if err != nil {
		return false, err
	}
	stored := object.Empty(p.Object)
	stored.SetNamespace(p.Object.GetNamespace())
	stored.SetName(p.Object.GetName())
	if err := e.client.Status().Patch(ctx, stored, client.RawPatch(types.MergePatchType, body)); err != nil {
		return false, fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(from), retry.MarkOutdated(err))
	}
	e.cache.RecordWrite(e.cache.Primary, "", stored)
	p.Replace(object.Copy(stored))
	for _, f := range p.StatusUpdatedFuncs {
		f()
	}
	e.sendEvents(from, p)
	return true, nil
}

func statusPatch(o client.Object, before, after any) ([]byte, error) {
	from, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	diff, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing the status: %w", err)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID()},
		"status":   json.RawMessage(diff),
	})
}

// sendEvents sends the events of a reconcile after its status was stored: the recorded ones, and the transitions of the
// conditions. A reconcile without a change sends none.
func (e *Reconciler) sendEvents(from desired.Object, p *desired.Pass) {
	p.Object.GetObjectKind().SetGroupVersionKind(e.cache.Primary) // the scheme of the recorder may not have it
	for _, ev := range status.MergeEvents(append(status.TransitionEvents(from, p.Object), p.Events...)) {
		note := ev.Message[:min(len(ev.Message), maxNote)]
		e.recorder.Eventf(p.Object, nil, ev.Type, ev.Reason, "Reconcile", "%s", strings.ToValidUTF8(note, ""))
	}
}

// maxNote is the maximum length of an event's note in the API server, in bytes.
const maxNote = 1024
