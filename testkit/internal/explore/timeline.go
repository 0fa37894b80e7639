package explore

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// report returns the report of the run.
func (r *run) report() report.Run { return r.reportPart(r.plan) }

// reportPart returns the report of the run as one about a part of its plan.
func (r *run) reportPart(p *fault.Plan) report.Run {
	out := report.Run{
		Name: p.Name, Fault: p.Fault, Summary: p.Summary, Outcome: report.Passed, Duration: r.duration,
		Violations: r.findings(), Replay: r.x.Replay(p.Name),
	}
	why := cmp.Or(r.untriedReason(p), r.untriedReason(r.plan))
	switch {
	case len(out.Violations) > 0:
		out.Outcome = report.Failed
		out.Timeline = r.timeline()
	case why != "":
		out.Outcome = report.Untried
		out.UntriedReason = why
	case !p.AlwaysApplies && !r.isInjected(p):
		out.Outcome = report.Untried
		out.UntriedReason = "the moment for it did not come"
	case !r.isTornDown():
		out.Outcome = report.Untried
		out.UntriedReason = "what ended the run early is not held against the operator"
	}
	if r.x.Timelines && out.Timeline == nil {
		out.Timeline = r.timeline()
	}
	shortenNames(&out, r.space.Namespace)
	return out
}

// shortenNames replaces the name of the run in the texts of a report, as in the names of plans. It is long, occurs several
// times in the name of an object of another namespace, and is gone when the report is read.
func shortenNames(run *report.Run, namespace string) {
	if namespace == "" {
		return // the run has not begun
	}
	short := func(text *string) { *text = strings.ReplaceAll(*text, namespace, "$NAMESPACE") }
	for i := range run.Violations {
		short(&run.Violations[i].Message)
		short(&run.Violations[i].Detail)
	}
	for i := range run.Timeline {
		short(&run.Timeline[i].Text)
		short(&run.Timeline[i].Detail)
	}
}

// timeline merges the steps, requests, changes and log lines in the order of time.
func (r *run) timeline() []report.Entry {
	entries := slices.Clone(r.entries)
	entries = append(entries, timeline.Requests(r.operator.Calls(), r.operator.Began().Sub(r.began))...)
	entries = append(entries, timeline.Changes(r.changes, r.began)...)
	for _, l := range r.space.Lines() {
		entries = append(entries, report.Entry{At: l.At.Sub(r.began), Lane: report.Log, Text: l.Text})
	}
	timeline.Sort(entries)
	return entries
}

// describe prints an object as YAML without its managed fields.
func describe(u *unstructured.Unstructured) string { return timeline.Describe(u) }

type metadata struct {
	Name            string `json:"name"`
	GenerateName    string `json:"generateName"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`

	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

func metadataOf(body []byte) metadata {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	_ = json.Unmarshal(body, &object) // not an object: no metadata
	return object.Metadata
}
