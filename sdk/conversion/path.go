package conversion

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// path is the position of a field in the content of an object.
type path []string

func (p path) String() string { return strings.Join(p, ".") }

var fieldName = regexp.MustCompile(`^[A-Za-z_$-][A-Za-z0-9_$-]*$`)

func parsePath(s string) (path, error) {
	p := path(strings.Split(s, "."))
	if i := slices.IndexFunc(p, func(name string) bool { return !fieldName.MatchString(name) }); i >= 0 {
		return nil, fmt.Errorf("path %q: %q is no name of a field: write a path such as spec.size", s, p[i])
	}
	return p, nil
}

// get returns the value at the path.
func (p path) get(content map[string]any) (any, bool) {
	var v any = content
	for _, name := range p {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// take removes the value at the path. It returns nil without a value.
func (p path) take(content map[string]any) any {
	last := len(p) - 1
	parent, _ := p[:last].get(content)
	m, ok := parent.(map[string]any)
	if !ok {
		return nil
	}
	v := m[p[last]]
	delete(m, p[last])
	return v
}

// put sets the value at the path, and creates the objects around it.
func (p path) put(content map[string]any, v any) error {
	m := content
	for i, name := range p[:len(p)-1] {
		if m[name] == nil {
			m[name] = map[string]any{}
		}
		child, ok := m[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s cannot be set, because %s is no object", p, p[:i+1])
		}
		m = child
	}
	m[p[len(p)-1]] = v
	return nil
}
