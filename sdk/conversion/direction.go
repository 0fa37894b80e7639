package conversion

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// direction is a set of lenses that are applied from one side to the other. It is immutable.
type direction struct {
	steps []step
	takes []field // the longest path first, so that an inner field is not moved with the outer one
	puts  []field // the shortest path first
	gone  []path  // objects that the other version does not have, the longest path first
	// vanishing are the paths in gone of this direction and of those inside.
	vanishing []path
	whole     func(map[string]any) (map[string]any, error)
}

// step is one lens.
type step struct {
	from, to []path
	convert  func([]any) ([]any, error) // nil keeps the values
	each     *direction                 // nil, or applied to each object in the value
	// inside means that the value is set only if the object around it exists, as defaults of a schema are.
	inside bool
}

// field is the index of a step and of one of its paths.
type field struct {
	step int
	path path
	i    int
}

// compile returns both directions. Its error names every mistake in the lenses.
func compile(lenses []Lens, root bool) (toHub, toSpoke *direction, err error) {
	toHub, toSpoke = &direction{}, &direction{}
	spokeSeen, hubSeen := map[string]bool{}, map[string]bool{}
	var errs []error
	for _, l := range lenses {
		if l.convert != nil {
			errs = append(errs, l.err)
			if len(lenses) > 1 || !root {
				errs = append(errs, errors.New("Functions must be the only lens of a version, because it converts whole objects"))
			}
			toHub.whole = l.convert.toHub
			toSpoke.whole = l.convert.toSpoke
			continue
		}
		spoke, errSpoke := parsePaths(l.spoke, root, spokeSeen)
		hub, errHub := parsePaths(l.hub, root, hubSeen)
		h := step{from: spoke, to: hub, convert: l.toHub, inside: len(spoke) == 0}
		s := step{from: hub, to: spoke, convert: l.toSpoke, inside: len(hub) == 0}
		var errEach error
		if l.each != nil {
			h.each, s.each, errEach = compile(l.each, false)
		}
		if err := errors.Join(l.err, errSpoke, errHub, errEach); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l, err))
		}
		toHub.steps = append(toHub.steps, h)
		toSpoke.steps = append(toSpoke.steps, s)
	}
	toHub.sort()
	toSpoke.sort()
	if root {
		toHub.vanishing = toHub.allGone(nil)
		toSpoke.vanishing = toSpoke.allGone(nil)
	}
	return toHub, toSpoke, errors.Join(errs...)
}

func (l Lens) String() string {
	if l.name == "" {
		return "Lens"
	}
	if l.convert != nil {
		return l.name
	}
	return l.name + "(" + strings.Join(append(slices.Clone(l.spoke), l.hub...), ", ") + ")"
}

func parsePaths(texts []string, root bool, seen map[string]bool) ([]path, error) {
	var paths []path
	var errs []error
	for _, s := range texts {
		p, err := parsePath(s)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case root && (p[0] == "metadata" || p[0] == "apiVersion" || p[0] == "kind"):
			errs = append(errs, fmt.Errorf("path %q: a conversion must not change %s", s, p[0]))
		case seen[s]:
			errs = append(errs, fmt.Errorf("path %q is in another lens: one field of a version belongs to one lens", s))
		}
		seen[s] = true
		paths = append(paths, p)
	}
	return paths, errors.Join(errs...)
}

func (d *direction) sort() {
	for i, s := range d.steps {
		for j, p := range s.from {
			d.takes = append(d.takes, field{i, p, j})
		}
		for j, p := range s.to {
			d.puts = append(d.puts, field{i, p, j})
		}
	}
	slices.SortStableFunc(d.takes, func(a, b field) int { return len(b.path) - len(a.path) })
	slices.SortStableFunc(d.puts, func(a, b field) int {
		if ai, bi := d.steps[a.step].inside, d.steps[b.step].inside; ai != bi {
			if ai {
				return 1
			}
			return -1
		}
		return len(a.path) - len(b.path)
	})
	d.findGone()
}

// findGone lists the objects around fields that move, unless a field moves into them.
func (d *direction) findGone() {
	stay, seen := map[string]bool{}, map[string]bool{}
	for _, f := range d.puts {
		for i := range f.path {
			stay[f.path[:i].String()] = true
		}
	}
	for _, f := range d.takes {
		for i := len(f.path) - 1; i > 0; i-- {
			p := f.path[:i]
			if name := p.String(); !stay[name] && !seen[name] && len(d.steps[f.step].to) > 0 {
				d.gone = append(d.gone, p)
				seen[name] = true
			}
		}
	}
	slices.SortStableFunc(d.gone, func(a, b path) int { return len(b) - len(a) })
}

// allGone returns the paths in gone, also those inside of lists and maps. Their items have the name [items].
func (d *direction) allGone(prefix path) []path {
	var all []path
	for _, p := range d.gone {
		all = append(all, slices.Concat(prefix, p))
	}
	for _, s := range d.steps {
		if s.each != nil {
			all = append(all, s.each.allGone(slices.Concat(prefix, s.from[0], path{items}))...)
		}
	}
	return all
}

// apply converts content, which it may modify, and returns the result.
func (d *direction) apply(content map[string]any) (map[string]any, error) {
	if d.whole != nil {
		return d.whole(content)
	}
	values := make([][]any, len(d.steps))
	for i, s := range d.steps {
		values[i] = make([]any, len(s.from))
	}
	for _, f := range d.takes {
		values[f.step][f.i] = f.path.take(content)
	}
	for _, f := range d.puts {
		f.path.take(content) // the version has no such field: it is kept
	}
	for _, p := range d.gone {
		if v, ok := p.get(content); ok && equal(v, map[string]any{}) {
			p.take(content)
		}
	}
	for i := range d.steps {
		v, err := d.steps[i].run(values[i])
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	for _, f := range d.puts {
		v := values[f.step][f.i]
		if v == nil || d.steps[f.step].inside && !f.path.hasParent(content) {
			continue
		}
		if err := f.path.put(content, v); err != nil {
			return nil, err
		}
	}
	return content, nil
}

func (p path) hasParent(content map[string]any) bool {
	if len(p) == 1 {
		return true
	}
	v, _ := p[:len(p)-1].get(content)
	_, ok := v.(map[string]any)
	return ok
}

func (s *step) run(values []any) ([]any, error) {
	if s.each != nil {
		return values, s.eachItem(values[0])
	}
	if s.convert == nil || len(s.to) == 0 {
		return values, nil
	}
	values, err := s.convert(values)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", join(s.from), err)
	}
	for i, v := range values {
		if values[i], err = normalize(v); err != nil {
			return nil, fmt.Errorf("%s: %w", join(s.from), err)
		}
	}
	return values, nil
}

func join(paths []path) string {
	texts := make([]string, len(paths))
	for i, p := range paths {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// normalize returns a value of a function as JSON content.
func normalize(v any) (any, error) {
	switch v.(type) {
	case nil, string, bool, int64, float64:
		return v, nil
	default:
		return toJSON(v)
	}
}

// eachItem converts the objects in a list or map in place.
func (s *step) eachItem(collection any) error {
	convert := func(key, item any) (any, error) {
		m, ok := item.(map[string]any)
		if !ok {
			return item, nil
		}
		result, err := s.each.apply(m)
		if err != nil {
			return nil, fmt.Errorf("%s[%v].%w", s.from[0], key, err)
		}
		return result, nil
	}
	var err error
	switch c := collection.(type) {
	case []any:
		for i, item := range c {
			if c[i], err = convert(i, item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range c {
			if c[key], err = convert(key, item); err != nil {
				return err
			}
		}
	}
	return nil
}
