package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/wire"
)

// report tells the run.
func (r *run) report() report.Run {
	out := report.Run{
		Name: r.plan.name, Fault: r.plan.fault, What: r.plan.what, Outcome: report.Passed, Duration: r.took,
		Violations: r.violations, Replay: r.x.Replay(r.plan.name),
	}
	switch {
	case len(out.Violations) > 0:
		out.Outcome = report.Failed
		out.Timeline = r.timeline()
	case r.plan.untried != "":
		out.Outcome, out.Why = report.Untried, r.plan.untried
	case !r.plan.always && !r.isFired():
		out.Outcome, out.Why = report.Untried, "the moment for it did not come"
	}
	return out
}

// timeline merges everything that happened.
func (r *run) timeline() []report.Entry {
	entries := slices.Clone(r.said)
	offset := func(w *wire.Wire) time.Duration { return w.Began().Sub(r.began) }
	for _, c := range r.wire.Calls() {
		if c.Verb == "watch" && c.Code == http.StatusOK || wire.IsLease(c.Request) || c.Resource == "events" {
			continue
		}
		entries = append(entries, callEntry(c, offset(r.wire)))
	}
	last := map[types.UID]*unstructured.Unstructured{}
	for _, c := range r.changes {
		e := r.changeEntry(c, last[c.Object.GetUID()])
		last[c.Object.GetUID()] = c.Object
		e.At = c.At.Sub(r.began)
		entries = append(entries, e)
	}
	for _, l := range r.probe.log() {
		entries = append(entries, report.Entry{At: l.at.Sub(r.began), Lane: report.Log, Text: l.text})
	}
	slices.SortStableFunc(entries, func(a, b report.Entry) int { return cmp.Compare(a.At, b.At) })
	return entries
}

func callEntry(c wire.Call, offset time.Duration) report.Entry {
	e := report.Entry{At: offset + c.Began, Lane: report.Operator, Text: c.String()}
	switch {
	case c.Lost != "":
		e.Bad, e.Text = true, strings.TrimSuffix(c.String(), fmt.Sprintf(" -> %d", c.Code))+" -> "+c.Lost
		if c.Reached {
			e.Text += fmt.Sprintf(" (the server had answered %d)", c.Code)
		}
	case c.Code >= http.StatusBadRequest && c.Code != http.StatusNotFound:
		e.Bad, e.Detail = c.Code != http.StatusConflict, c.Message
	}
	if c.Process > 1 {
		e.Text = fmt.Sprintf("[process %d] %s", c.Process, e.Text)
	}
	return e
}

func (r *run) changeEntry(c history.Change, before *unstructured.Unstructured) report.Entry {
	if c.Resource.Resource == "events" {
		reason, _, _ := unstructured.NestedString(c.Object.Object, "reason")
		message, _, _ := unstructured.NestedString(c.Object.Object, "message")
		if message == "" {
			message, _, _ = unstructured.NestedString(c.Object.Object, "note")
		}
		return report.Entry{Lane: report.Event, Text: strings.TrimSpace(reason + ": " + message)}
	}
	e := report.Entry{Lane: report.Cluster}
	switch c.Type {
	case watch.Added:
		e.Text = r.name(c) + " is created"
	case watch.Deleted:
		e.Text = r.name(c) + " is gone"
	default:
		e.Text = r.name(c) + " is changed"
		if before != nil {
			if diffs := differences("", before.Object, c.Object.Object, nil); len(diffs) > 0 {
				e.Text += ": " + strings.Join(diffs[:min(len(diffs), 3)], ", ")
				e.Detail = strings.Join(diffs, "\n")
			}
		}
	}
	return e
}

// differences lists the fields of b that are not what they are in a, as "spec.replicas: 1 -> 3".
func differences(path string, a, b any, found []string) []string {
	x, isMap := a.(map[string]any)
	y, alsoMap := b.(map[string]any)
	if !isMap || !alsoMap {
		if !reflect.DeepEqual(a, b) {
			found = append(found, fmt.Sprintf("%s: %s -> %s", path, short(a), short(b)))
		}
		return found
	}
	keys := map[string]bool{}
	for k := range x {
		keys[k] = true
	}
	for k := range y {
		keys[k] = true
	}
	for _, k := range slices.Sorted(mapKeys(keys)) {
		at := strings.TrimPrefix(path+"."+k, ".")
		switch at {
		case "metadata.managedFields", "metadata.resourceVersion", "metadata.generation":
		default:
			found = differences(at, x[k], y[k], found)
		}
	}
	return found
}

func short(v any) string {
	if v == nil {
		return "none"
	}
	data, err := json.Marshal(v)
	text := string(data)
	if err != nil {
		text = fmt.Sprint(v)
	}
	const limit = 60
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// describe prints an object as YAML without what nobody reads.
func describe(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// lastWrites lists the operator's last writes.
func (r *run) lastWrites(n int) string {
	var writes []string
	for _, c := range r.wire.Calls() {
		if c.Writes() && !wire.IsLease(c.Request) && c.Resource != "events" {
			writes = append(writes, c.String())
		}
	}
	return strings.Join(writes[max(0, len(writes)-n):], "\n")
}

type metadata struct {
	Name            string `json:"name"`
	GenerateName    string `json:"generateName"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

func metadataOf(body []byte) metadata {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	_ = json.Unmarshal(body, &object) // what is no object has no metadata
	return object.Metadata
}
