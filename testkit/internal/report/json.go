package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes the whole report, with its findings, for other programs and for comparing two explorations. Durations are
// in nanoseconds. Invalid UTF-8 is replaced.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	all := struct {
		*Report

		Findings []Finding `json:"findings,omitempty"`
	}{r, r.Findings()}
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("writing the report as JSON: %w", err)
	}
	return nil
}
