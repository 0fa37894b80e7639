package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Element is one step of a Path: a property, a map's key, or a list index.
type Element struct {
	// Name is the property or the key. It is empty for a list index.
	Name string
	// Index is the list index, from 0. It has no meaning if Name is set.
	Index int
	item  bool
}

// Field returns the step to a property or to a map's key.
func Field(name string) Element { return Element{Name: name} }

// Item returns the step to a list index.
func Item(index int) Element { return Element{Index: index, item: true} }

// A Path leads from the root of an object to a value in it. It must not be modified.
type Path []Element

// At returns the path with the given steps. Strings are fields, ints are items. Other types panic.
func At(steps ...any) Path {
	p := make(Path, len(steps))
	for i, step := range steps {
		switch s := step.(type) {
		case string:
			p[i] = Field(s)
		case int:
			p[i] = Item(s)
		default:
			panic(fmt.Sprintf("testkit: a step of a path is a string or an int, not a %T", step))
		}
	}
	return p
}

// Absent is the value of a missing property. It is not null.
var Absent any = absent{}

type absent struct{}

// String makes Absent readable in test failures.
func (absent) String() string { return "unset" }

// plainName matches the names that need no brackets.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// String formats the path like the API server: spec.ports[0].name, metadata.labels[example.com/a].
func (p Path) String() string {
	var b strings.Builder
	for _, e := range p {
		switch {
		case e.item:
			b.WriteString("[" + strconv.Itoa(e.Index) + "]")
		case !plainName.MatchString(e.Name):
			b.WriteString("[" + e.Name + "]")
		case b.Len() == 0:
			b.WriteString(e.Name)
		default:
			b.WriteString("." + e.Name)
		}
	}
	return b.String()
}

// Then returns the path with one more step. It shares no memory with p.
func (p Path) Then(e Element) Path { return append(slices.Clip(p), e) }

// Get returns the value at p in content, or Absent.
func (p Path) Get(content any) any {
	for _, e := range p {
		switch c := content.(type) {
		case map[string]any:
			child, ok := c[e.Name]
			if !ok || e.item {
				return Absent
			}
			content = child
		case []any:
			if !e.item || e.Index >= len(c) {
				return Absent
			}
			content = c[e.Index]
		default:
			return Absent
		}
	}
	return content
}

// Set returns content with another value at p. Absent removes the value. The index after the last item of a list
// appends. Only the values on the path are copied: content is not modified, and the result shares the rest with it. Set
// returns content and false if content has no such place.
func (p Path) Set(content, value any) (any, bool) {
	if len(p) == 0 {
		return value, true
	}
	switch c := content.(type) {
	case map[string]any:
		return p.setField(c, value)
	case []any:
		return p.setItem(c, value)
	default:
		return content, false
	}
}

func (p Path) setField(c map[string]any, value any) (any, bool) {
	name := p[0].Name
	child, present := c[name]
	if p[0].item || !present && (len(p) > 1 || value == Absent) {
		return c, false
	}
	child, ok := p[1:].Set(child, value)
	if !ok {
		return c, false
	}
	changed := maps.Clone(c)
	if changed == nil {
		changed = map[string]any{}
	}
	if child == Absent {
		delete(changed, name)
	} else {
		changed[name] = child
	}
	return changed, true
}

func (p Path) setItem(c []any, value any) (any, bool) {
	i := p[0].Index
	switch {
	case !p[0].item, i > len(c), i == len(c) && (len(p) > 1 || value == Absent):
		return c, false
	case i == len(c):
		return append(slices.Clip(c), value), true
	}
	child, ok := p[1:].Set(c[i], value)
	if !ok {
		return c, false
	}
	if child == Absent {
		return slices.Delete(slices.Clone(c), i, i+1), true
	}
	changed := slices.Clone(c)
	changed[i] = child
	return changed, true
}
