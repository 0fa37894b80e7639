package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// writeReports prints the report, and writes the requested files.
func (e *exploration) writeReports(r *report.Report) error {
	opts := []report.TextOption{report.Folded()}
	if e.options.withTimelines {
		opts = append(opts, report.Timelines())
	}
	if file, ok := e.out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" {
		opts = append(opts, report.Color())
	}
	var errs []error
	if e.options.onlyList && len(r.Failures()) == 0 {
		errs = append(errs, e.writeList(r))
	} else {
		errs = append(errs, report.WriteText(e.out, r, opts...))
	}
	for _, path := range e.options.reports {
		errs = append(errs, writeReport(path, r))
	}
	return errors.Join(errs...)
}

// hasResults reports whether a run was made before the exploration ended.
func hasResults(r *report.Report) bool {
	return r != nil && r.Count(report.Untried) < len(r.Runs)
}

// writeList prints the names of the plans.
func (e *exploration) writeList(r *report.Report) error {
	for _, s := range r.Skipped {
		if s.Reason != explore.OnlyListed {
			continue
		}
		for _, plan := range s.Plans {
			if _, err := fmt.Fprintln(e.out, plan); err != nil {
				return fmt.Errorf("writing the list of plans: %w", err)
			}
		}
	}
	return nil
}

func writeReport(path string, r *report.Report) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return reportWriters[filepath.Ext(path)](file, r)
}
