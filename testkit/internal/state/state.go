// Package state represents the objects of a namespace in a form that is comparable between runs of a scenario: without
// generated names, versions, times and other values that differ from run to run.
package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/instant"
)

// Mark is the prefix of the explorer's own annotations and labels. A state does not contain them.
const Mark = "testkit.homeostat.dev/"

// State maps canonical names of objects, such as "deployments.apps/web", to their canonical content. The content is nil
// if only the existence counts.
type State map[string]any

// Detail is the part of an object that belongs to a state.
type Detail int

// The details.
const (
	None           Detail = iota // nothing
	Existence                    // the existence
	Spec                         // everything except the status
	ConditionsOnly               // the conditions of the status
	FullStatus                   // the whole status
)

// Snapshot returns the state of a namespace.
func Snapshot(n *NameMap, current []history.Change, detail func(history.Change) Detail) State {
	s := State{}
	for _, c := range current {
		key := n.Of(c.Object.GetUID())
		switch d := detail(c); d {
		case None:
		case Existence:
			s[key] = nil
		default:
			s[key] = n.content(c.Object, d)
		}
	}
	return s
}

// clusterValues are fields of built-in kinds with values chosen by the cluster. An operator may copy these values.
var clusterValues = []struct {
	name string
	path []string
}{
	{"$NODE", []string{"spec", "nodeName"}},
	{"$IP", []string{"spec", "clusterIP"}},
	{"$VOLUME", []string{"spec", "volumeName"}},
	{"$IP", []string{"status", "podIP"}},
	{"$IP", []string{"status", "hostIP"}},
}

// clusterFields are fields with values chosen by the cluster.
var clusterFields = [][]string{
	{"spec", "nodeName"},
	{"spec", "clusterIP"},
	{"spec", "clusterIPs"},
	{"spec", "volumeName"},
	{"spec", "healthCheckNodePort"},
}

func (n *NameMap) content(u *unstructured.Unstructured, detail Detail) any {
	o := runtime.DeepCopyJSON(u.Object)
	for _, path := range clusterFields {
		unstructured.RemoveNestedField(o, path...)
	}
	keepSetFields(u, o)
	generation := u.GetGeneration()
	metadata := map[string]any{}
	if labels := clean(u.GetLabels()); len(labels) > 0 {
		metadata["labels"] = labels
	}
	if annotations := clean(u.GetAnnotations()); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if finalizers := u.GetFinalizers(); len(finalizers) > 0 {
		metadata["finalizers"] = stringsOf(finalizers)
	}
	if u.GetDeletionTimestamp() != nil {
		metadata["deletionTimestamp"] = "$TIME"
	}
	if owners, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "ownerReferences"); ok {
		metadata["ownerReferences"] = runtime.DeepCopyJSONValue(owners)
	}
	o["metadata"] = metadata
	delete(o, "apiVersion")
	delete(o, "kind")
	switch status, ok := o["status"].(map[string]any); {
	case detail == Spec || !ok:
		delete(o, "status")
	case detail == ConditionsOnly:
		o["status"] = conditionsStatus(status)
	default:
		dropMessages(status)
		if list, ok := status["conditions"]; ok {
			status["conditions"] = conditions(list)
		}
	}
	return n.canonicalValue(o, generation)
}

// conditions reduces conditions to type and status. Reasons and messages may depend on history.
func conditions(list any) any {
	items, ok := list.([]any)
	if !ok {
		return list // reduced before
	}
	said := map[string]any{}
	for _, item := range items {
		if c, ok := item.(map[string]any); ok {
			said[fmt.Sprint(c["type"])] = c["status"]
		}
	}
	return said
}

func conditionsStatus(status map[string]any) map[string]any {
	kept := map[string]any{}
	for _, name := range []string{"conditions", "observedGeneration"} {
		if v, ok := status[name]; ok {
			kept[name] = v
		}
	}
	if list, ok := kept["conditions"]; ok {
		kept["conditions"] = conditions(list)
	}
	return kept
}

// dropMessages removes messages, which are for people.
func dropMessages(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["message"].(string); ok {
			delete(v, "message")
		}
		for _, x := range v {
			dropMessages(x)
		}
	case []any:
		for _, x := range v {
			dropMessages(x)
		}
	}
}

// WithConditionsOnly returns the state with every status reduced to [ConditionsOnly].
func (s State) WithConditionsOnly() State {
	out := maps.Clone(s)
	for key, v := range s {
		o, ok := v.(map[string]any)
		if status, has := o["status"].(map[string]any); ok && has {
			o = maps.Clone(o)
			o["status"] = conditionsStatus(status)
			out[key] = o
		}
	}
	return out
}

func clean(m map[string]string) map[string]any {
	kept := map[string]any{}
	for k, v := range m {
		if !strings.HasPrefix(k, Mark) && k != "deployment.kubernetes.io/revision" {
			kept[k] = v
		}
	}
	return kept
}

func stringsOf(list []string) []any {
	all := make([]any, len(list))
	for i, s := range slices.Sorted(slices.Values(list)) {
		all[i] = s
	}
	return all
}

// canonicalValue returns the canonical form of a value and of the keys in it. An observed generation becomes $CURRENT or
// $OLD.
func (n *NameMap) canonicalValue(v any, generation int64) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string][]any, len(v))
		for k, x := range v {
			if strings.HasPrefix(k, Mark) { // an operator may copy annotations
				continue
			}
			name := n.Text(k)
			if seen, ok := decimal(x); ok && k == "observedGeneration" {
				x = "$OLD"
				if seen == float64(generation) {
					x = "$CURRENT"
				}
			}
			out[name] = append(out[name], n.canonicalValue(x, generation))
		}
		return numberEqual(out)
	case []any:
		for i, x := range v {
			v[i] = n.canonicalValue(x, generation)
		}
		return v
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return instant.Placeholder
		}
		if choice, ok := n.chosen[v]; ok {
			return choice
		}
		return n.Text(v)
	case int64, float64:
		if instant.Is(v, n.now) {
			return instant.Placeholder
		}
		return v
	default:
		return v
	}
}

// Counts maps canonical groups to the creations and deletions of their objects.
type Counts map[string]Count

// Count is the count of one group.
type Count struct{ Created, Deleted int }

// SkipsFrom reports whether the count is another one without some objects that were deleted again. This
// is so if two events that the operator handled one after the other arrive together.
func (c Count) SkipsFrom(all Count) bool {
	return c.Created < all.Created && all.Created-c.Created == all.Deleted-c.Deleted
}

// CountOf counts the creations and deletions of the objects that the predicate selects.
func CountOf(n *NameMap, changes []history.Change, counts func(history.Change) bool) Counts {
	all := Counts{}
	for _, c := range changes {
		if !counts(c) {
			continue
		}
		group := n.Group(c.Object.GetUID())
		count := all[group]
		switch c.Type {
		case watch.Added:
			count.Created++
		case watch.Deleted:
			count.Deleted++
		case watch.Modified, watch.Bookmark, watch.Error:
			continue
		}
		all[group] = count
	}
	return all
}
