package policy

import (
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
	// Winner is the source of this rule with precedence, nil if it is one of another rule.
	Winner *metav1.PartialObjectMetadata
	// Rule is the "namespace/name" of the rule with precedence, and Namespaces are the places that it has.
	Rule       string
	Namespaces []string
}

// Placement is the result of [RuleSources.Place].
type Placement struct {
	// Copies are the desired copies: those of the oldest source first, and of each source those in the oldest namespace first.
	Copies []Copy
	// Refused are the copies that their namespaces refuse.
	Refused []Copy
	// Shadowed are sources without copies in some or all targets.
	Shadowed []Shadowed
}

// Place returns the desired copies. Of two sources of one name the older one is copied; of the same age, the one with the
// lower UID. Places of a peer with precedence over this rule (see [Rule.Before]) are left out, and places of the rule's own
// sources: a source is never overwritten.
func (f RuleSources) Place(n *Namespaces, peers []RuleSources) Placement {
	var p Placement
	places := map[string][]string{} // of sources, by name
	for _, s := range f.Sources {
		places[s.Name] = append(places[s.Name], s.Namespace)
	}
	first, claims, targets := f.preferredSources(), f.claims(n, peers), f.Targets(n)
	for _, s := range slices.SortedFunc(slices.Values(f.Sources), byAge) {
		if winner := first[s.Name]; winner != s {
			p.Shadowed = append(p.Shadowed, Shadowed{Source: s, Winner: winner})
			continue
		}
		by := Shadowed{Source: s}
		for i, namespace := range n.All {
			if !targets[i] || slices.Contains(places[s.Name], namespace.Name) {
				continue
			}
			copied := Copy{s, namespace.Name}
			switch rule := claims.of(s.Name, i, namespace.Name); {
			case namespace.Name != f.Namespace && n.Refuses(namespace.Name, s.Name):
				p.Refused = append(p.Refused, copied)
			case rule != nil:
				by.Rule = rule.Namespace + "/" + rule.Name
				by.Namespaces = append(by.Namespaces, namespace.Name)
			default:
				p.Copies = append(p.Copies, copied)
			}
		}
		if by.Rule != "" {
			p.Shadowed = append(p.Shadowed, by)
		}
	}
	return p
}

// claims are the places of rules with precedence, by the name of the copy.
type claims map[string][]claim

type claim struct {
	rule    *Rule
	targets []bool   // by namespace
	sources []string // the namespaces of the sources of that name
}

// claims returns the places of the peers that have precedence over the rule.
func (f RuleSources) claims(n *Namespaces, peers []RuleSources) claims {
	all := claims{}
	for _, peer := range peers {
		if !peer.Before(f.Rule) {
			continue
		}
		names := map[string][]string{}
		for _, s := range peer.Sources {
			names[s.Name] = append(names[s.Name], s.Namespace)
		}
		for name, sources := range names {
			all[name] = append(all[name], claim{peer.Rule, peer.Targets(n), sources})
		}
	}
	return all
}

// of returns a rule that copies an object of that name to namespace number i, or nil.
func (all claims) of(name string, i int, namespace string) *Rule {
	for _, c := range all[name] {
		if c.targets[i] && !slices.Contains(c.sources, namespace) {
			return c.rule
		}
	}
	return nil
}

// Before reports whether the rule has precedence over another one in every namespace: rules of the operator's namespace
// come first, and of these the older ones. So no tenant can displace copies of the operator's rules. Between other rules a
// place belongs to the rule whose copy it has; see [Rule.TakesOver].
func (r *Rule) Before(other *Rule) bool {
	if r.Trusted() != other.Trusted() {
		return r.Trusted()
	}
	return r.Trusted() && compareAge(r.object, other.object) < 0
}

// TakesOver reports whether the rule takes a place in a namespace from a copy of another rule, given as "namespace/name".
// Rules of the operator's namespace take the places of all others, and rules of the namespace itself those of other
// namespaces. The order is strict, so a place has a new owner at most twice, independently of the order of observation. Age
// has no influence: otherwise an old rule could take any name from a younger one.
func (r *Rule) TakesOver(holder, namespace string) bool {
	of, _, ok := strings.Cut(holder, "/")
	if !ok || of == r.settings.Namespace {
		return false
	}
	return r.Trusted() || r.Namespace == namespace && of != namespace
}

// preferredSources returns the copied source of each name.
func (f RuleSources) preferredSources() map[string]*metav1.PartialObjectMetadata {
	first := map[string]*metav1.PartialObjectMetadata{}
	for _, s := range f.Sources {
		if other, ok := first[s.Name]; !ok || compareAge(s, other) < 0 {
			first[s.Name] = s
		}
	}
	return first
}

// IsOlder reports whether the rule is older than another one.
func (r *Rule) IsOlder(other *Rule) bool { return compareAge(r.object, other.object) < 0 }
