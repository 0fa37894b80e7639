package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/instant"
)

// NameMap maps the generated names of one run to names that are equal in all runs.
type NameMap struct {
	namespace string
	byUID     map[types.UID]string
	generated map[string]string // generated names, for example "web-x7k2p" -> "web-~1"
	chosen    map[string]string // values chosen by the cluster, for example "node-1" -> "$NODE"
	longest   []string          // generated names, longest first, because one may contain another
	now       time.Time         // times near it are replaced, unless it is zero
}

// GeneratedNames holds the prefixes of names that an operator generates, by kind, for example "jobs.batch": "backup-".
type GeneratedNames map[string][]string

// Prefix returns the fixed part of a name, if the rest is generated: it was added before, or begins with a time near now.
func (g GeneratedNames) Prefix(kind, name string, now time.Time) (string, bool) {
	for _, prefix := range g[kind] {
		if strings.HasPrefix(name, prefix) && name != prefix {
			return prefix, true
		}
	}
	return instant.Prefix(name, now)
}

// AddDifferences compares two states that should be equal, and stores the prefixes of names that only one of them has. The
// common part up to a separator is the prefix. AddDifferences reports whether it found any.
func (g GeneratedNames) AddDifferences(a, b State) (found bool) {
	others := keysOnlyIn(b, a)
	for _, x := range keysOnlyIn(a, b) {
		kind, name, _ := strings.Cut(x, "/")
		longest := ""
		for _, y := range others {
			if other, ok := strings.CutPrefix(y, kind+"/"); ok {
				longest = max(longest, common(name, other)) // of two prefixes of one name, the longer one is greater
			}
		}
		if longest != "" && !strings.Contains(longest, "~") && !slices.Contains(g[kind], longest) {
			g[kind] = append(g[kind], longest)
			found = true
		}
	}
	return found
}

// common returns the common prefix of two names, up to the last separator.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:strings.LastIndexAny(a[:n], "-.")+1]
}

// keysOnlyIn returns the keys that b does not have.
func keysOnlyIn(a, b State) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// NewNameMap derives the names of a run from its history. Times near now in names and values count as generated, in all
// forms of package instant. With the zero time, only values in RFC 3339 do. One exploration has one now, so that a value
// is treated in all runs alike.
func NewNameMap(namespace string, changes []history.Change, prefixes GeneratedNames, now time.Time) *NameMap {
	n := &NameMap{
		namespace: namespace, byUID: map[types.UID]string{}, generated: map[string]string{}, chosen: map[string]string{}, now: now,
	}
	count := map[string]int{}
	for _, c := range changes {
		for _, choice := range clusterValues {
			if v, _, _ := unstructured.NestedString(c.Object.Object, choice.path...); v != "" && v != "None" {
				n.chosen[v] = choice.name
			}
		}
		if _, known := n.byUID[c.Object.GetUID()]; known {
			continue
		}
		name := c.Object.GetName()
		prefix, isMade := prefixes.Prefix(kindOf(c), name, now)
		if generate := c.Object.GetGenerateName(); generate != "" && strings.HasPrefix(name, generate) {
			prefix, isMade = generate, true
		}
		if isMade {
			group := kindOf(c) + "/" + prefix
			count[group]++
			made := fmt.Sprintf("%s~%d", prefix, count[group])
			n.generated[name] = made
			name = made
		}
		plain := name
		for uid, of := range n.byUID {
			plain = ReplaceUID(plain, uid, "$UID("+of+")")
		}
		if plain != name {
			n.generated[name] = plain
		}
		if other := c.Object.GetNamespace(); other != "" && other != namespace {
			plain = other + ":" + plain
		}
		n.byUID[c.Object.GetUID()] = kindOf(c) + "/" + strings.ReplaceAll(plain, namespace, "$NAMESPACE")
	}
	n.longest = slices.SortedFunc(maps.Keys(n.generated), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return n
}

// ReplaceUID replaces a UID in a name, and its part before the first hyphen, which operators use as a short form.
func ReplaceUID(name string, uid types.UID, instead string) string {
	const uuid, start = 36, 8
	if len(uid) != uuid || !strings.Contains(name, string(uid[:start])) {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, string(uid), instead), string(uid[:start]), instead)
}

// Of returns the canonical name of an object.
func (n *NameMap) Of(uid types.UID) string { return n.byUID[uid] }

// Group returns the canonical name of an object without the number of a generated name. Objects are counted by group.
func (n *NameMap) Group(uid types.UID) string {
	name := n.byUID[uid]
	if i := strings.LastIndex(name, "~"); i >= 0 {
		return name[:i+1]
	}
	return name
}

// Text replaces generated names and values, and times near now, in a text.
func (n *NameMap) Text(text string) string {
	text = strings.ReplaceAll(text, n.namespace, "$NAMESPACE")
	for _, name := range n.longest {
		text = strings.ReplaceAll(text, name, n.generated[name])
	}
	for uid, name := range n.byUID {
		if strings.Contains(text, string(uid)) {
			text = strings.ReplaceAll(text, string(uid), "$UID("+name+")")
		}
	}
	return instant.Mask(text, n.now)
}

func kindOf(c history.Change) string {
	if c.Resource.Group == "" {
		return c.Resource.Resource
	}
	return c.Resource.Resource + "." + c.Resource.Group
}
