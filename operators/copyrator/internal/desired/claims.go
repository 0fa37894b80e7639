package desired

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Found is a rule together with the sources that it may copy.
type Found struct {
	*Rule
	// Sources are the objects.
	Sources []*metav1.PartialObjectMetadata
}

// Copy is one object that there should be.
type Copy struct {
	Source    *metav1.PartialObjectMetadata
	Namespace string
}

// Shadowed is a source that is not copied, at least not everywhere, because another one of its name comes first.
type Shadowed struct {
	Source *metav1.PartialObjectMetadata
	// By names the source that comes first, or the rule that does.
	By string
}

// Copies says what copies there should be in these namespaces, by source and namespace. Of two sources of one name the
// older one is copied, and of the same age the one whose UID comes first. What a peer copies that comes before this rule in
// a namespace (see [Rule.Before]), this one does not. A source is never taken for a place to copy to.
func (f Found) Copies(namespaces []*metav1.PartialObjectMetadata, peers []Found) (copies []Copy, shadowed []Shadowed) {
	places := map[string][]string{} // of sources, by name
	for _, s := range f.Sources {
		places[s.Name] = append(places[s.Name], s.Namespace)
	}
	first := f.firsts()
	for _, s := range sorted(f.Sources) {
		if winner := first[s.Name]; winner != s {
			shadowed = append(shadowed, Shadowed{s, "source " + winner.Namespace + "/" + winner.Name})
			continue
		}
		by := ""
		for _, n := range namespaces {
			if !f.Reaches(n) || slices.Contains(places[s.Name], n.Name) {
				continue
			}
			if rule := f.claimed(peers, s.Name, n); rule != "" {
				by = cmp.Or(by, rule)
				continue
			}
			copies = append(copies, Copy{s, n.Name})
		}
		if by != "" {
			shadowed = append(shadowed, Shadowed{s, by})
		}
	}
	return copies, shadowed
}

// claimed names a peer that comes before the rule and copies something of that name to the namespace, "" if there is none.
func (f Found) claimed(peers []Found, name string, namespace *metav1.PartialObjectMetadata) string {
	for _, peer := range peers {
		if !peer.Before(f.Rule, namespace.Name) {
			continue
		}
		named, here := false, false
		for _, s := range peer.Sources {
			named = named || s.Name == name
			here = here || s.Name == name && s.Namespace == namespace.Name
		}
		if named && !here && peer.Reaches(namespace) {
			return "rule " + peer.Namespace + "/" + peer.Name
		}
	}
	return ""
}

// Before reports whether the rule comes before another one where both want a place in a namespace: one of the operator's
// namespace before all others, then one that is in the namespace itself, then the older one. So nobody who may write rules
// takes a place from the operator's rules, nor one in somebody else's namespace from that one's rules.
func (r *Rule) Before(other *Rule, namespace string) bool {
	if r.Trusted() != other.Trusted() {
		return r.Trusted()
	}
	if home := r.Namespace == namespace; home != (other.Namespace == namespace) {
		return home
	}
	return Before(r.made, other.made)
}

// MayComeBefore reports whether there is a namespace in which the rule comes before another one.
func (r *Rule) MayComeBefore(other *Rule) bool {
	return r.Before(other, "") || r.Before(other, r.Namespace)
}

// firsts returns of each name the source that is copied.
func (f Found) firsts() map[string]*metav1.PartialObjectMetadata {
	first := map[string]*metav1.PartialObjectMetadata{}
	for _, s := range f.Sources {
		if other, ok := first[s.Name]; !ok || Before(s, other) {
			first[s.Name] = s
		}
	}
	return first
}

// Before reports whether a comes before b where both cannot have the same place.
func Before(a, b metav1.Object) bool {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		strings.Compare(string(a.GetUID()), string(b.GetUID()))) < 0
}

func sorted(sources []*metav1.PartialObjectMetadata) []*metav1.PartialObjectMetadata {
	return slices.SortedFunc(slices.Values(sources), func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
	})
}
