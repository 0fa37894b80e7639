// Package desired builds the writes of the operator. It makes no decision.
package desired

import (
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// Patch returns the merge patch for a record and a digest in the pod template, or nil if nothing changes. An empty digest
// removes the annotation. The patch has the observed resourceVersion, so that a concurrent change is a conflict. Server-side
// apply is not used, because it could not remove annotations restored by `kubectl rollout undo`.
func Patch(o client.Object, record annotation.Record, template string) []byte {
	metadata := map[string]any{}
	patch := map[string]any{"metadata": metadata}
	changes := record.Changes(o.GetAnnotations())
	if len(changes) > 0 {
		metadata["annotations"] = changes
	}
	if now := workload.Digest(o); now != template {
		var value any
		if template != "" {
			value = template
		}
		patch["spec"] = map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotation.Digest: value}},
		}}
	} else if len(changes) == 0 {
		return nil
	}
	metadata["resourceVersion"] = o.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil { // maps of strings
		panic(err)
	}
	return text
}
