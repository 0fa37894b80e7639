package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// readFormer reads the JSON report of a former exploration.
func readFormer(path string) (*report.Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--continue=%s: %w: give a report that was written with --report %[1]s", path, err)
	}
	former := &report.Report{}
	if filepath.Ext(path) != ".json" || json.Unmarshal(data, former) != nil {
		return nil, fmt.Errorf("--continue=%s: this is no JSON report: give one that was written with --report FILE.json", path)
	}
	former.Runs = slices.DeleteFunc(former.Runs, func(run report.Run) bool {
		return run.Fault == fault || run.Outcome == report.Untried
	})
	return former, nil
}

// hasRun reports whether a former exploration has the result of a plan.
func hasRun(former *report.Report, plan string) bool {
	return former != nil && slices.ContainsFunc(former.Runs, func(run report.Run) bool { return run.Name == plan })
}
