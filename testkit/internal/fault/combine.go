package fault

import (
	"slices"
	"strings"
)

// Groups divides plans into groups that can be combined, in the order of the plans. A plan joins the first group that it
// fits, so few plans of many steps result in few groups.
func Groups(plans []*Plan) [][]*Plan {
	var groups [][]*Plan
	for _, p := range plans {
		i := slices.IndexFunc(groups, p.fits)
		if i < 0 {
			groups = append(groups, []*Plan{p})
			continue
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// fits reports whether the plan can be combined with those of a group. Faults of one step would hide each other, unless one
// is injected when the operator is idle again. Plans that skip the comparison of creations would skip it for all.
func (p *Plan) fits(group []*Plan) bool {
	return !slices.ContainsFunc(group, func(q *Plan) bool {
		return p.Step == 0 || q.Step == 0 || p.SkipCounts != q.SkipCounts ||
			p.Step == q.Step && p.AfterIdle == nil && q.AfterIdle == nil
	})
}

// Combine returns a plan for one run with the faults of all plans of a group.
func Combine(group []*Plan) *Plan {
	if len(group) == 1 {
		return group[0]
	}
	combined := &Plan{Fault: "combined", KeepsObjects: true, parts: group}
	var names, summaries []string
	for _, p := range group {
		names = append(names, p.Name)
		summaries = append(summaries, p.Summary)
		combined.ExtraQuiet = combined.ExtraQuiet || p.ExtraQuiet
		combined.SkipCounts = combined.SkipCounts || p.SkipCounts
		combined.KeepsObjects = combined.KeepsObjects && p.KeepsObjects
	}
	combined.Name = strings.Join(names, " + ")
	combined.Summary = strings.Join(summaries, "; then ")
	return combined
}

// Parts returns the plans that this one combines: only itself, if it was not returned by Combine.
func (p *Plan) Parts() []*Plan {
	if p.parts == nil {
		return []*Plan{p}
	}
	return p.parts
}

// IsCombined reports whether the plan combines several.
func (p *Plan) IsCombined() bool { return p.parts != nil }

// ForExchange returns the part whose Exchange is the request with this identifier, or nil.
func (p *Plan) ForExchange(id string) *Plan {
	for _, part := range p.Parts() {
		if part.Exchange == id {
			return part
		}
	}
	return nil
}

// ForTarget returns the part whose Target is the request with this identifier, or nil.
func (p *Plan) ForTarget(id string) *Plan {
	for _, part := range p.Parts() {
		if part.Target == id {
			return part
		}
	}
	return nil
}
