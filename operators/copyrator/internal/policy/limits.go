package policy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits limit the rules outside of the operator's namespace, so that the writes and the storage that one tenant causes do
// not depend on the number of namespaces. Zero means no limit.
type Limits struct {
	// Sources is the maximum number of sources of one rule. The oldest ones are copied.
	Sources int64
	// Copies and Bytes are the maximum number of copies of one rule, and of the bytes in all of them.
	Copies, Bytes int64
	// NamespaceRules, NamespaceCopies and NamespaceBytes are the limits for all rules of one namespace together. The oldest
	// rules come first.
	NamespaceRules, NamespaceCopies, NamespaceBytes int64
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Sources: 100, Copies: 1000, Bytes: 32 << 20, NamespaceRules: 100, NamespaceCopies: 3000, NamespaceBytes: 100 << 20,
}

// Usage is the number of copies of a rule, and of the bytes in them.
type Usage struct{ Copies, Bytes int64 }

// Add returns the sum.
func (u Usage) Add(other Usage) Usage { return Usage{u.Copies + other.Copies, u.Bytes + other.Bytes} }

// Allowance is what one rule may use.
type Allowance struct {
	Usage

	limits Limits
	// NoRule means that the rule is beyond the number of rules of its namespace.
	NoRule bool
}

// Allow returns the allowance of a rule, given the number of older rules in its namespace and their usage.
func (l Limits) Allow(olderRules int, older Usage) Allowance {
	rest := func(limit, of, used int64) int64 {
		switch {
		case of == 0:
			return limit
		case used >= of:
			return -1 // zero means no limit
		case limit == 0:
			return of - used
		default:
			return min(limit, of-used)
		}
	}
	return Allowance{
		Usage:  Usage{rest(l.Copies, l.NamespaceCopies, older.Copies), rest(l.Bytes, l.NamespaceBytes, older.Bytes)},
		limits: l, NoRule: l.NamespaceRules > 0 && int64(olderRules) >= l.NamespaceRules,
	}
}

// Cap returns the usage of a rule that wants this much, before the limits of its namespace.
func (l Limits) Cap(wanted Usage) Usage {
	if l.Copies > 0 {
		wanted.Copies = min(wanted.Copies, l.Copies)
	}
	if l.Bytes > 0 {
		wanted.Bytes = min(wanted.Bytes, l.Bytes)
	}
	return wanted
}

// LimitSources returns the oldest sources within the limit.
func (l Limits) LimitSources(sources []*metav1.PartialObjectMetadata) []*metav1.PartialObjectMetadata {
	if l.Sources == 0 || int64(len(sources)) <= l.Sources {
		return sources
	}
	return slices.SortedFunc(slices.Values(sources), byAge)[:l.Sources]
}

// Limit returns the first copies within the allowance, and a sentence on the others, "" if there are none. size returns the
// size of a source in bytes.
func (a Allowance) Limit(copies []Copy, size func(*metav1.PartialObjectMetadata) int64) ([]Copy, string) {
	if a.NoRule {
		return nil, fmt.Sprintf("its namespace has more than %d rules, and this is not one of the oldest: delete some",
			a.limits.NamespaceRules)
	}
	var used Usage
	for i, c := range copies {
		used = used.Add(Usage{1, size(c.Source)})
		switch {
		case a.Copies != 0 && used.Copies > max(a.Copies, 0):
			return copies[:i], fmt.Sprintf("%d of %d copies are not made: the limits are %d copies for a rule and %d for "+
				"all rules of a namespace together; select fewer sources or namespaces",
				len(copies)-i, len(copies), a.limits.Copies, a.limits.NamespaceCopies)
		case a.Bytes != 0 && used.Bytes > max(a.Bytes, 0):
			return copies[:i], fmt.Sprintf("%d of %d copies are not made: the limits are %d bytes for a rule and %d for "+
				"all rules of a namespace together; select fewer or smaller sources, or fewer namespaces",
				len(copies)-i, len(copies), a.limits.Bytes, a.limits.NamespaceBytes)
		}
	}
	return copies, ""
}

// WantedUsage returns an upper bound of the usage of a rule.
func (f RuleSources) WantedUsage(n *Namespaces, size func(*metav1.PartialObjectMetadata) int64) (u Usage) {
	targets := int64(f.CountTargets(n))
	for _, s := range f.preferredSources() {
		u = u.Add(Usage{targets, targets * size(s)})
	}
	return u
}
