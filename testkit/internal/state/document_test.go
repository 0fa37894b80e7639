package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Two runs of an operator have equal documents, although the digests of its fields differ.
func TestDocumentsHaveNoDigest(t *testing.T) {
	t.Parallel()
	document := func(digest string) map[string]any {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetAnnotations(map[string]string{"homeostat.dev/applied": digest, "other": "kept"})
		return state.NewNameMap("default", nil, nil, time.Time{}).Document(u, false)
	}
	first := document("a")
	if diff := cmp.Diff(first, document("b")); diff != "" {
		t.Error(diff)
	}
	want := map[string]any{"homeostat.dev/applied": "$DIGEST", "other": "kept"}
	if metadata, _ := first["metadata"].(map[string]any); !cmp.Equal(metadata["annotations"], any(want)) {
		t.Errorf("annotations %v", metadata["annotations"])
	}
}
