package explore

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/external"
)

// This file finds what external services have after the custom resources were deleted, and had not before the first step.

// externalResidue is the name of external services in Options.AllowResidue.
const externalResidue = "external"

// rememberStates stores the states of the services before the first step. A service that is added later has the state that
// it has then.
func (es *externals) rememberStates() {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.initial = es.states()
}

// states returns the states as encoding/json decodes them, nil for a service without one.
func (es *externals) states() []any {
	states := make([]any, len(es.services))
	for i, service := range es.services {
		states[i] = es.stateOf(service)
	}
	return states
}

func (es *externals) stateOf(service *external.Service) (state any) {
	if service.State == nil {
		return nil
	}
	data, err := json.Marshal(service.State())
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		es.run.abort(fmt.Errorf("comparing external services: %w", err))
	}
	return state
}

// residue describes the first service that has more entries than before the first step, or returns "".
func (es *externals) residue() (service, detail string) {
	if slices.Contains(es.run.x.AllowResidue, externalResidue) {
		return "", ""
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	for i, after := range es.states() {
		if before := es.initial[i]; hasMore(before, after) {
			return fmt.Sprintf("external service %d", i+1), fmt.Sprintf("- %s\n+ %s", encode(before), encode(after))
		}
	}
	return "", ""
}

func encode(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// hasMore reports whether a list is longer, or a map has another key with entries. Other values, such as counters, may
// differ.
func hasMore(before, after any) bool {
	switch after := after.(type) {
	case []any:
		before, _ := before.([]any)
		return len(after) > len(before)
	case map[string]any:
		before, _ := before.(map[string]any)
		for key, value := range after {
			if was, known := before[key]; !known && !isEmpty(value) || hasMore(was, value) {
				return true
			}
		}
	}
	return false
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return value == nil
}
