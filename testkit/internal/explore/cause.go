package explore

import (
	"regexp"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// This file derives the causes of violations, by which a report groups them.

// findings returns the violations of the run with their causes. Violations whose cause was found without a fault are
// omitted: the fault did not cause them.
func (r *run) findings() []report.Violation {
	r.outcome.mu.Lock()
	all := slices.Clone(r.violations)
	r.outcome.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	canonical := func(text string) string { return text }
	if r.space.Namespace != "" {
		canonical = r.names(r.changes).Text
	}
	for i := range all {
		setCause(&all[i], canonical)
	}
	if r.baseline == nil {
		return all
	}
	return slices.DeleteFunc(all, func(v report.Violation) bool { return r.x.faultless[v.CauseKey()] })
}

// setCause sets the cause of a violation and the part of it: the kinds of objects and the fields in which a state differs,
// or else the message without what differs between runs. It sets the objects of a state that differ, too. canonical
// replaces generated names.
func setCause(v *report.Violation, canonical func(string) string) {
	if v.Oracle == oracleEndState && v.Detail != "" {
		if objects, kinds, fields := differingFields(v.Detail); len(kinds) > 0 {
			v.Cause = strings.Join(kinds, ", ")
			v.Part = report.CanonicalText(canonical(strings.Join(fields, ", ")))
			v.Objects = objects
			return
		}
	}
	message := furtherNamespace.ReplaceAllString(canonical(v.Message), "$$NAMESPACE-#:")
	v.Cause = report.CanonicalText(conditionStatus.ReplaceAllString(message, "#"))
	v.Part = ""
}

// conditionStatus matches the status of a condition at the end of a message.
var conditionStatus = regexp.MustCompile(`\b(True|False|Unknown)$`)

// furtherNamespace matches the namespace in the canonical name of an object in a further namespace (see package state). An
// operator that does the same in several namespaces has one cause.
var furtherNamespace = regexp.MustCompile(`\$NAMESPACE-[a-z0-9-]+:`)

// unlessKnown returns a violation, or nil if its cause is known: it was found without a fault, or before in this run without
// one.
func (r *run) unlessKnown(v *report.Violation) *report.Violation {
	if v == nil || r.baseline != nil && len(r.x.faultless) == 0 {
		return v
	}
	canonical := r.names(r.log.Changes()).Text
	keyOf := func(v report.Violation) string {
		setCause(&v, canonical)
		return v.CauseKey()
	}
	known := r.x.faultless[keyOf(*v)]
	if r.baseline == nil {
		r.outcome.mu.Lock()
		defer r.outcome.mu.Unlock()
		known = slices.ContainsFunc(r.violations, func(old report.Violation) bool { return keyOf(old) == keyOf(*v) })
	}
	if known {
		return nil
	}
	return v
}

// differingFields returns the objects, the kinds and the fields of a difference of states (see state.Difference), sorted.
// There are no fields if a whole object is missing or extra. A status that differs beside something else is omitted: it is
// the consequence.
func differingFields(diff string) (objects, kinds, fields []string) {
	places := map[string][]string{} // the fields by object; a whole object has the field ""
	object := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		switch _, rest, _ := strings.Cut(line, " "); {
		case strings.HasPrefix(line, "  "):
			object = strings.TrimSpace(line)
		case strings.HasPrefix(rest, "  "): // a field of the object above
			path, _, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			places[object] = append(places[object], path)
		default:
			places[rest] = append(places[rest], "")
		}
	}
	isStatus := func(path string) bool { return path == "status" || strings.HasPrefix(path, "status.") }
	onlyStatus := true
	for _, paths := range places {
		onlyStatus = onlyStatus && !slices.ContainsFunc(paths, func(path string) bool { return !isStatus(path) })
	}
	whole := false
	for object, paths := range places {
		if !onlyStatus {
			paths = slices.DeleteFunc(paths, isStatus)
		}
		if len(paths) > 0 {
			objects = append(objects, object)
			kinds = append(kinds, kindOf(object))
		}
		for _, path := range paths {
			whole = whole || path == ""
			fields = append(fields, kindOf(object)+" "+path)
		}
	}
	for _, list := range []*[]string{&objects, &kinds, &fields} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if whole {
		fields = nil
	}
	return objects, kinds, fields
}

// kindOf returns the kind in a canonical name such as "deployments.apps/web".
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// areFit reports whether the states of the baseline runs can be compared with others: each run reached the end of the
// scenario and deleted the custom resources, with the operator running. Violations of other rules do not concern the states.
func (x *Explorer) areFit(runs []*run) bool {
	return !slices.ContainsFunc(runs, func(r *run) bool {
		ended := slices.ContainsFunc(r.violations, func(v report.Violation) bool { return v.Oracle == oracleExit })
		return ended || len(r.checkpoints) <= len(x.Steps)
	})
}

// obstacle returns why no plan can be tried after these baseline runs, and what goes on, or "" if there is a baseline.
func (x *Explorer) obstacle(runs []report.Run) string {
	if x.baseline != nil {
		return ""
	}
	found := map[string]bool{}
	for _, run := range runs {
		for _, v := range run.Violations {
			found[v.Oracle] = true
		}
	}
	const nothing = "no plan was tried, because a run without a fault did not reach the end of the scenario: "
	switch {
	case found[oracleExit]:
		return nothing + "correct first why the operator ends by itself"
	case found[oracleScenario]:
		return nothing + "correct the operator or what the step waits for, or allow more time (--timeout, chaos.Timeout)"
	case found[oracleAtRest]:
		return nothing + "to go on, lower the quiet period (--quiet-period, chaos.QuietPeriod), or disable the rule " +
			"(--without " + oracleAtRest + ", chaos.WithoutOracles)"
	default:
		return nothing + "correct first what it found"
	}
}

// setFaultless stores the causes of the violations without a fault.
func (x *Explorer) setFaultless(runs []report.Run) {
	x.faultless = map[string]bool{}
	for _, run := range runs {
		for _, v := range run.Violations {
			x.faultless[v.CauseKey()] = true
		}
	}
}
