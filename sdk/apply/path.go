package apply

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldPath identifies a field by the JSON names on the path to it, through objects only.
type fieldPath []string

func (p fieldPath) String() string { return strings.Join(p, ".") }

func (p fieldPath) parent(fields map[string]any, create bool) map[string]any {
	for _, name := range p[:len(p)-1] {
		next, ok := fields[name].(map[string]any)
		if !ok {
			if !create {
				return nil
			}
			next = map[string]any{}
			fields[name] = next
		}
		fields = next
	}
	return fields
}

func (p fieldPath) get(fields map[string]any) (any, bool) {
	v, ok := p.parent(fields, false)[p[len(p)-1]]
	return v, ok
}

func (p fieldPath) set(fields map[string]any, v any) { p.parent(fields, true)[p[len(p)-1]] = v }

func (p fieldPath) remove(fields map[string]any) (any, bool) {
	v, ok := p.get(fields)
	if ok {
		delete(p.parent(fields, false), p[len(p)-1])
	}
	return v, ok
}

// path returns p as a path of structured-merge-diff.
func (p fieldPath) path() fieldpath.Path {
	path := make(fieldpath.Path, len(p))
	for i := range p {
		path[i] = fieldpath.PathElement{FieldName: &p[i]}
	}
	return path
}
