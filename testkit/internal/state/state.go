// Package state says what the objects of a namespace amount to, in a form in which two runs of the same scenario can be
// compared: without names that the server made up, versions, times, and whatever else differs from run to run.
package state

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

// Mark is the prefix of annotations and labels that the explorer itself makes. They are no part of a state.
const Mark = "testkit.homeostat.dev/"

// State holds the canonical content of objects by their canonical names, such as "deployments.apps/web". An object of
// which only the existence counts has nil.
type State map[string]any

// Names translates what the server made up in one run into what is the same in all.
type Names struct {
	namespace string
	byUID     map[types.UID]string
	made      map[string]string // generated names, for example "web-x7k2p" -> "web-~1"
	picked    map[string]string // what the cluster chose, for example "node-1" -> "$NODE"
	longest   []string          // the generated names, the longest first: one may be a part of another
}

// Invented are the beginnings of names that an operator makes up, by kind, for example "jobs.batch": "backup-".
type Invented map[string][]string

// Prefix returns the part of a name that is not made up, if the rest of it is.
func (i Invented) Prefix(kind, name string) (string, bool) {
	for _, prefix := range i[kind] {
		if strings.HasPrefix(name, prefix) && name != prefix {
			return prefix, true
		}
	}
	return "", false
}

// Invent compares two states that should be the same and learns from names that only one of them has. It reports whether
// there were such names: what they have in common, up to a separator, is the part that is not made up.
func (i Invented) Invent(a, b State) (found bool) {
	others := only(b, a)
	for _, x := range only(a, b) {
		kind, name, _ := strings.Cut(x, "/")
		longest := ""
		for _, y := range others {
			if other, ok := strings.CutPrefix(y, kind+"/"); ok {
				longest = max(longest, common(name, other)) // of two beginnings of one name the longer one is greater
			}
		}
		if longest != "" && !strings.Contains(longest, "~") && !slices.Contains(i[kind], longest) {
			i[kind] = append(i[kind], longest)
			found = true
		}
	}
	return found
}

// common is what two names have in common, up to the last separator.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:strings.LastIndexAny(a[:n], "-.")+1]
}

// only lists the keys that b does not have.
func only(a, b State) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// NamesOf reads the names of a run from its history.
func NamesOf(namespace string, changes []history.Change, invented Invented) *Names {
	n := &Names{
		namespace: namespace, byUID: map[types.UID]string{}, made: map[string]string{}, picked: map[string]string{},
	}
	count := map[string]int{}
	for _, c := range changes {
		for _, choice := range choices {
			if v, _, _ := unstructured.NestedString(c.Object.Object, choice.path...); v != "" && v != "None" {
				n.picked[v] = choice.name
			}
		}
		if _, known := n.byUID[c.Object.GetUID()]; known {
			continue
		}
		name := c.Object.GetName()
		prefix, isMade := invented.Prefix(kindOf(c), name)
		if generate := c.Object.GetGenerateName(); generate != "" && strings.HasPrefix(name, generate) {
			prefix, isMade = generate, true
		}
		if isMade {
			group := kindOf(c) + "/" + prefix
			count[group]++
			made := fmt.Sprintf("%s~%d", prefix, count[group])
			n.made[name] = made
			name = made
		}
		plain := name
		for uid, of := range n.byUID {
			plain = WithoutUID(plain, uid, "$UID("+of+")")
		}
		if plain != name {
			n.made[name] = plain
		}
		n.byUID[c.Object.GetUID()] = kindOf(c) + "/" + strings.ReplaceAll(plain, namespace, "$NAMESPACE")
	}
	n.longest = slices.SortedFunc(maps.Keys(n.made), func(a, b string) int {
		return gocmp.Or(gocmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return n
}

// WithoutUID puts something else in the place of a UID in a name, and of its part before the first hyphen: operators shorten
// it to that.
func WithoutUID(name string, uid types.UID, instead string) string {
	const uuid, start = 36, 8
	if len(uid) != uuid || !strings.Contains(name, string(uid[:start])) {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, string(uid), instead), string(uid[:start]), instead)
}

// Of returns the canonical name of an object.
func (n *Names) Of(uid types.UID) string { return n.byUID[uid] }

// Group returns the canonical name of an object without the number of a generated one: what is counted together.
func (n *Names) Group(uid types.UID) string {
	name := n.byUID[uid]
	if i := strings.LastIndex(name, "~"); i >= 0 {
		return name[:i+1]
	}
	return name
}

// Text replaces in a text what differs from run to run.
func (n *Names) Text(text string) string {
	text = strings.ReplaceAll(text, n.namespace, "$NAMESPACE")
	for _, name := range n.longest {
		text = strings.ReplaceAll(text, name, n.made[name])
	}
	for uid, name := range n.byUID {
		if strings.Contains(text, string(uid)) {
			text = strings.ReplaceAll(text, string(uid), "$UID("+name+")")
		}
	}
	return text
}

func kindOf(c history.Change) string {
	if c.Resource.Group == "" {
		return c.Resource.Resource
	}
	return c.Resource.Resource + "." + c.Resource.Group
}

// Detail says how much of an object belongs to the state.
type Detail int

// The details.
const (
	None      Detail = iota // it does not belong to it
	Existence               // that it exists
	Spec                    // all but its status
	Verdict                 // of its status, the conditions
	Whole                   // all its status
)

// Take returns the state of a namespace.
func Take(n *Names, current []history.Change, detail func(history.Change) Detail) State {
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

// choices are fields of Kubernetes's kinds whose values the cluster chooses. An operator may repeat them elsewhere.
var choices = []struct {
	name string
	path []string
}{
	{"$NODE", []string{"spec", "nodeName"}},
	{"$IP", []string{"spec", "clusterIP"}},
	{"$VOLUME", []string{"spec", "volumeName"}},
	{"$IP", []string{"status", "podIP"}},
	{"$IP", []string{"status", "hostIP"}},
}

// chosen are fields that the cluster chooses.
var chosen = [][]string{
	{"spec", "nodeName"},
	{"spec", "clusterIP"},
	{"spec", "clusterIPs"},
	{"spec", "volumeName"},
	{"spec", "healthCheckNodePort"},
}

func (n *Names) content(u *unstructured.Unstructured, detail Detail) any {
	o := runtime.DeepCopyJSON(u.Object)
	for _, path := range chosen {
		unstructured.RemoveNestedField(o, path...)
	}
	owned(u, o)
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
	case detail == Verdict:
		o["status"] = verdict(status)
	default:
		silence(status)
		if list, ok := status["conditions"]; ok {
			status["conditions"] = conditions(list)
		}
	}
	return n.value(o, generation)
}

// conditions reduces conditions to what they say: the words in which they say it may depend on how it came about.
func conditions(list any) any {
	items, ok := list.([]any)
	if !ok {
		return list // reduced already
	}
	said := map[string]any{}
	for _, item := range items {
		if c, ok := item.(map[string]any); ok {
			said[fmt.Sprint(c["type"])] = c["status"]
		}
	}
	return said
}

func verdict(status map[string]any) map[string]any {
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

// silence drops texts that are for people.
func silence(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["message"].(string); ok {
			delete(v, "message")
		}
		for _, x := range v {
			silence(x)
		}
	case []any:
		for _, x := range v {
			silence(x)
		}
	}
}

// Verdicts returns the state with all status reduced to [Verdict].
func (s State) Verdicts() State {
	out := maps.Clone(s)
	for key, v := range s {
		o, ok := v.(map[string]any)
		if status, has := o["status"].(map[string]any); ok && has {
			o = maps.Clone(o)
			o["status"] = verdict(status)
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

// value makes one value canonical. An observed generation becomes a statement about the object's own.
func (n *Names) value(v any, generation int64) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if strings.HasPrefix(k, Mark) { // an operator may copy annotations
				delete(v, k)
				continue
			}
			if seen, ok := x.(int64); ok && k == "observedGeneration" {
				v[k] = "$CURRENT"
				if seen != generation {
					v[k] = "$OLD"
				}
				continue
			}
			v[k] = n.value(x, generation)
		}
		return v
	case []any:
		for i, x := range v {
			v[i] = n.value(x, generation)
		}
		return v
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "$TIME"
		}
		if choice, ok := n.picked[v]; ok {
			return choice
		}
		return n.Text(v)
	default:
		return v
	}
}

// Mask is the set of places at which states of the same scenario differ by themselves.
type Mask map[string]bool

// Learn adds the places at which two states differ. A key that only one of them has is a difference that cannot be
// masked, and is returned.
func (m Mask) Learn(a, b State) (unsteady []string) {
	for key, v := range a {
		if other, ok := b[key]; ok {
			m.learn(key, v, other)
		}
	}
	return append(only(a, b), only(b, a)...)
}

func (m Mask) learn(path string, a, b any) {
	x, xMap := a.(map[string]any)
	y, yMap := b.(map[string]any)
	p, pList := a.([]any)
	q, qList := b.([]any)
	switch {
	case xMap && yMap:
		for _, k := range slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y))) {
			m.learn(path+"."+k, x[k], y[k])
		}
	case pList && qList && len(p) == len(q):
		for i := range p {
			m.learn(fmt.Sprintf("%s[%d]", path, i), p[i], q[i])
		}
	case !cmp.Equal(a, b):
		m[path] = true
	}
}

// Apply returns the state with what is masked left out.
func (m Mask) Apply(s State) State {
	out := State{}
	for key, v := range s {
		if !m[key] {
			out[key] = m.apply(key, v)
		}
	}
	return out
}

func (m Mask) apply(path string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if !m[path+"."+k] {
				out[k] = m.apply(path+"."+k, x)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for i, x := range v {
			if p := fmt.Sprintf("%s[%d]", path, i); !m[p] {
				out = append(out, m.apply(p, x))
			}
		}
		return out
	default:
		return v
	}
}

// Diff returns how got differs from want, both masked, or "" if they are the same.
func (m Mask) Diff(want, got State) string { return cmp.Diff(m.Apply(want), m.Apply(got)) }

// Counts are how often objects of one canonical group were created and deleted.
type Counts map[string]Count

// Count is that of one group.
type Count struct{ Created, Deleted int }

// CountOf counts the creations and deletions of the objects for which counts is true.
func CountOf(n *Names, changes []history.Change, counts func(history.Change) bool) Counts {
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
