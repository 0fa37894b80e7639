package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
)

// Revision returns a hash of the fields that cannot change on a running pod. Two specifications have the same revision if
// and only if their pods differ in nothing but the image.
func Revision(ic *v1alpha1.ImmortalContainer) string { return revision(podSpec(ic.Spec.DeepCopy())) }

// revision must be stable: a new value for an unchanged specification would replace every existing pod. A test pins it.
// Empty fields are removed first, because the version of the API library decides if they appear in the JSON.
func revision(spec corev1.PodSpec) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encoding a pod specification: %v", err)) // it was decoded from JSON
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		panic(fmt.Sprintf("decoding a pod specification: %v", err)) // it was encoded above
	}
	containers, _ := fields["containers"].([]any)
	only, _ := containers[0].(map[string]any)
	delete(only, "image")
	raw, err = json.Marshal(prune(fields))
	if err != nil {
		panic(fmt.Sprintf("encoding a pod specification: %v", err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// prune removes empty fields from value. Items of lists stay.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if v[name] = prune(field); empty(v[name]) {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return value
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}
