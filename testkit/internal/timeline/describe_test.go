package timeline_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// Reports are sent to others: they contain no value of a Secret.
func TestDescribeHidesSecrets(t *testing.T) {
	t.Parallel()
	text := timeline.Describe(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name":        "key",
			"annotations": map[string]any{corev1.LastAppliedConfigAnnotation: `{"data":{"password":"c2VjcmV0"}}`},
		},
		"data": map[string]any{"password": "c2VjcmV0"},
	}})
	if strings.Contains(text, "c2VjcmV0") || !strings.Contains(text, "password: hidden") {
		t.Errorf("the value of a Secret is shown:\n%s", text)
	}
}
