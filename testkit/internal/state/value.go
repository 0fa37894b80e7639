package state

import (
	"encoding/json"
	"fmt"
)

// Value returns the canonical form of a value that is no Kubernetes object, as encoding/json encodes it.
func (n *NameMap) Value(v any) (any, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a state: %w", err)
	}
	var plain any
	if err := json.Unmarshal(encoded, &plain); err != nil {
		return nil, fmt.Errorf("decoding a state: %w", err)
	}
	return n.canonicalValue(plain, 0), nil
}
