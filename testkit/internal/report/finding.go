package report

import (
	"cmp"
	"regexp"
	"slices"
)

// Finding is one cause of failures, with the runs in which it was found.
type Finding struct {
	// Oracle and Message are those of the violation in the first run.
	Oracle  string `json:"oracle"`
	Message string `json:"message"`
	// Runs lists the names of the runs, in the order of the report.
	Runs []string `json:"runs"`
	// Objects has the objects of all violations, in the order in which they were found.
	Objects []string `json:"objects,omitempty"`
}

// Findings returns the violations of all runs, grouped by their cause, in the order in which they were found.
func (r *Report) Findings() []Finding { return newCauses(r).findings }

// causes holds the findings of a report by the key of their cause.
type causes struct {
	findings []Finding
	index    map[string]int
	whole    map[string]bool // causes without a part
}

func newCauses(r *Report) *causes {
	c := &causes{index: map[string]int{}, whole: map[string]bool{}}
	for _, run := range r.Failures() {
		for _, v := range run.Violations {
			c.whole[v.wholeCause()] = c.whole[v.wholeCause()] || v.Part == ""
		}
	}
	for _, run := range r.Failures() {
		for _, v := range run.Violations {
			i, known := c.index[c.key(v)]
			if !known {
				i = len(c.findings)
				c.index[c.key(v)] = i
				c.findings = append(c.findings, Finding{Oracle: v.Oracle, Message: v.Message})
			}
			f := &c.findings[i]
			if len(f.Runs) == 0 || f.Runs[len(f.Runs)-1] != run.Name {
				f.Runs = append(f.Runs, run.Name)
			}
			for _, object := range v.Objects {
				if !slices.Contains(f.Objects, object) {
					f.Objects = append(f.Objects, object)
				}
			}
		}
	}
	return c
}

// key returns the key of the violation's finding. A violation without a part, such as a missing object, is of the same
// finding as those of any part of it.
func (c *causes) key(v Violation) string {
	if c.whole[v.wholeCause()] {
		return v.wholeCause()
	}
	return v.CauseKey()
}

// of returns the finding of a violation.
func (c *causes) of(v Violation) Finding { return c.findings[c.index[c.key(v)]] }

// introduces reports whether a run is the first one with any of its findings. A failed run without violations is.
func (c *causes) introduces(run Run) bool {
	for _, v := range run.Violations {
		if c.of(v).Runs[0] == run.Name {
			return true
		}
	}
	return len(run.Violations) == 0
}

// CauseKey returns a key that is equal for violations with the same cause and the same part of it.
func (v Violation) CauseKey() string {
	if v.Part == "" {
		return v.wholeCause()
	}
	return v.wholeCause() + ": " + v.Part
}

// wholeCause returns the key of the cause without its part.
func (v Violation) wholeCause() string {
	return v.Oracle + ": " + cmp.Or(v.Cause, CanonicalText(v.Message))
}

var (
	anyStep   = regexp.MustCompile(`after step "(?:[^"\\]|\\.)*",? ?|after the custom resources were deleted, ?`)
	anyCount  = regexp.MustCompile(`\b(?:once|twice|\d+ times)\b`)
	anyNumber = regexp.MustCompile(`0x[0-9a-f]+|\d+`)
)

// CanonicalText returns a message without what differs between runs that fail for the same cause: the step and numbers.
func CanonicalText(message string) string {
	message = anyStep.ReplaceAllString(message, "")
	return anyNumber.ReplaceAllString(anyCount.ReplaceAllString(message, "# times"), "#")
}
