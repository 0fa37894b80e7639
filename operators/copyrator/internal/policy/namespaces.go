package policy

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespaces are all namespaces of one pass. It is not safe for concurrent use.
type Namespaces struct {
	// All are the namespaces, the oldest first. If the operator is restricted to some namespaces, only names are known.
	All []*metav1.PartialObjectMetadata

	byName   map[string]*metav1.PartialObjectMetadata
	refusals map[string][]*metav1.PartialObjectMetadata
	refused  map[string]refusal // computed from refusals
	version  uint64             // identifies All
}

// refusal are the copies that a namespace refuses.
type refusal struct {
	all   bool
	names Patterns
}

// maxRefusals is the maximum number of ConfigMaps that refuse copies in one namespace. The oldest ones count.
const maxRefusals = 16

var versionSeed = maphash.MakeSeed()

// NewNamespaces returns the namespaces and the copies that they refuse: refusals are the objects with [RefuseLabel].
func NewNamespaces(all, refusals []*metav1.PartialObjectMetadata) *Namespaces {
	n := &Namespaces{
		All: slices.SortedFunc(slices.Values(all), byAge), byName: map[string]*metav1.PartialObjectMetadata{},
		refusals: map[string][]*metav1.PartialObjectMetadata{}, refused: map[string]refusal{},
	}
	var hash maphash.Hash
	hash.SetSeed(versionSeed)
	for _, o := range n.All {
		n.byName[o.Name] = o
		_, _ = hash.WriteString(o.Name + " " + o.ResourceVersion + "\n") // it never fails
	}
	n.version = hash.Sum64()
	for _, o := range slices.SortedFunc(slices.Values(refusals), byAge) {
		_, refuses := o.Labels[RefuseLabel]
		// A copy refuses nothing: its namespace did not write it.
		if refuses && !IsCopy(o) && len(n.refusals[o.Namespace]) < maxRefusals {
			n.refusals[o.Namespace] = append(n.refusals[o.Namespace], o)
		}
	}
	return n
}

// Get returns a namespace, or nil if it is not known.
func (n *Namespaces) Get(name string) *metav1.PartialObjectMetadata { return n.byName[name] }

// Refuses reports whether a namespace refuses copies of that name.
func (n *Namespaces) Refuses(namespace, name string) bool {
	if len(n.refusals[namespace]) == 0 {
		return false
	}
	r, ok := n.refused[namespace]
	if !ok {
		for _, o := range n.refusals[namespace] {
			names, some := o.Annotations[RefuseAnnotation]
			r.all = r.all || !some
			r.names = append(r.names, parseList(names)...)
		}
		n.refused[namespace] = r
	}
	return r.all || r.names.Match(name)
}

// Targets reports for each namespace of n.All whether the rule copies to it. The result is computed once for each state of
// the namespaces and is read-only.
func (r *Rule) Targets(n *Namespaces) []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reached == nil || r.reachedVersion != n.version {
		r.reached = make([]bool, len(n.All))
		for i, namespace := range n.All {
			r.reached[i] = r.Reaches(namespace)
		}
		r.reachedVersion = n.version
	}
	return r.reached
}

// CountTargets returns the number of namespaces that the rule copies to.
func (r *Rule) CountTargets(n *Namespaces) (count int) {
	for _, reached := range r.Targets(n) {
		if reached {
			count++
		}
	}
	return count
}

// byAge orders objects by age, the oldest first, and those of one second by UID and name.
func byAge(a, b *metav1.PartialObjectMetadata) int { return compareAge(a, b) }

func compareAge(a, b metav1.Object) int {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		strings.Compare(string(a.GetUID()), string(b.GetUID())),
		strings.Compare(a.GetName(), b.GetName()))
}
