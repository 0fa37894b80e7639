package policy

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RuleSources is a rule with the sources that it may copy.
type RuleSources struct {
	*Rule
	// Sources are the objects.
	Sources []*metav1.PartialObjectMetadata
}

// Copy is one desired object.
type Copy struct {
	Source    *metav1.PartialObjectMetadata
	Namespace string
}

// Shadowed is a source that is not copied to some or all targets, because another source of that name has precedence.
type Shadowed struct {
	Source *metav1.PartialObjectMetadata
	// By names the source that comes first, or the rule that does.
	By string
}

// Copies returns the desired copies in these namespaces, sorted by source and namespace. Of two sources of one name the
// older one is copied; of the same age, the one with the lower UID. Places of a peer with precedence over this rule (see
// [Rule.Before]) are left out. A source is never overwritten.
func (f RuleSources) Copies(
	namespaces []*metav1.PartialObjectMetadata, peers []RuleSources,
) (copies []Copy, shadowed []Shadowed) {
	places := map[string][]string{} // of sources, by name
	for _, s := range f.Sources {
		places[s.Name] = append(places[s.Name], s.Namespace)
	}
	first := f.preferredSources()
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
			if rule := f.claimingRule(peers, s.Name, n); rule != "" {
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

// claimingRule names a peer that has precedence over the rule and copies an object of that name to the namespace, or "".
func (f RuleSources) claimingRule(peers []RuleSources, name string, namespace *metav1.PartialObjectMetadata) string {
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

// Before reports whether the rule has precedence over another one in a namespace. Rules of the operator's namespace come
// first, then rules of the namespace itself, then older rules. So no tenant can displace copies of the operator's rules,
// nor those of a foreign namespace's own rules.
func (r *Rule) Before(other *Rule, namespace string) bool {
	if r.Trusted() != other.Trusted() {
		return r.Trusted()
	}
	if home := r.Namespace == namespace; home != (other.Namespace == namespace) {
		return home
	}
	return Before(r.object, other.object)
}

// MayComeBefore reports whether the rule has precedence over another one in any namespace.
func (r *Rule) MayComeBefore(other *Rule) bool {
	return r.Before(other, "") || r.Before(other, r.Namespace)
}

// preferredSources returns the copied source of each name.
func (f RuleSources) preferredSources() map[string]*metav1.PartialObjectMetadata {
	first := map[string]*metav1.PartialObjectMetadata{}
	for _, s := range f.Sources {
		if other, ok := first[s.Name]; !ok || Before(s, other) {
			first[s.Name] = s
		}
	}
	return first
}

// Before reports whether a has precedence over b: the older object, or the one with the lower UID.
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
