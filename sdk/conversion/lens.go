package conversion

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// Lens relates fields of a spoke to fields of the hub, in both directions. Its paths have dots, such as "spec.size", and
// begin with spec, status, or another field beside the metadata.
//
// A lens may name a field inside of one that another lens names: the inner one is then not affected by the outer one.
type Lens struct {
	name       string
	spoke, hub []string
	// toHub and toSpoke return the values of the fields of the other side. A value is nil if the object does not have the
	// field. Nil means that the values are the same.
	toHub, toSpoke func([]any) ([]any, error)
	// hubKeeps and spokeKeeps tell that the other version does not express all values of this side.
	hubKeeps, spokeKeeps bool
	each                 []Lens
	convert              *functions
	err                  error
}

// Rename moves a field.
func Rename(spoke, hub string) Lens {
	return Lens{name: "Rename", spoke: []string{spoke}, hub: []string{hub}}
}

// SpokeOnly is a field that the hub does not have. Its value is kept while an object is converted to the hub. The default,
// at most one, is its value in an object that was never stored in the spoke's version; without one, the field is absent.
func SpokeOnly(path string, defaultValue ...any) Lens {
	l := only("SpokeOnly", defaultValue)
	l.spoke = []string{path}
	l.toSpoke = l.toHub
	l.toHub = nil
	l.spokeKeeps = true
	return l
}

// HubOnly is a field that the spoke does not have. It is the counterpart of [SpokeOnly].
func HubOnly(path string, defaultValue ...any) Lens {
	l := only("HubOnly", defaultValue)
	l.hub = []string{path}
	l.hubKeeps = true
	return l
}

func only(name string, defaultValue []any) Lens {
	l := Lens{name: name}
	var value any
	switch len(defaultValue) {
	case 0:
	case 1:
		value, l.err = toJSON(defaultValue[0])
	default:
		l.err = fmt.Errorf("there are %d default values: give one or none", len(defaultValue))
	}
	l.toHub = func([]any) ([]any, error) { return []any{runtime.DeepCopyJSONValue(value)}, nil }
	return l
}

// Pair is a value of a field in a spoke and the corresponding value in the hub: strings, numbers or booleans.
type Pair struct{ Spoke, Hub any }

// Values renames the values of a field, which may also move. If a value is in several pairs, the first one has its
// counterpart. So a value of one version may be shown as an approximate one in the other, and is kept there. The
// conversion of a value that is in no pair fails.
func Values(spoke, hub string, pairs ...Pair) Lens {
	l := Lens{name: "Values", spoke: []string{spoke}, hub: []string{hub}}
	if len(pairs) == 0 {
		l.err = errors.New("there are no pairs of values")
	}
	toHub, toSpoke := map[any]any{}, map[any]any{}
	for _, p := range pairs {
		s, errSpoke := scalar(p.Spoke)
		h, errHub := scalar(p.Hub)
		l.err = errors.Join(l.err, errSpoke, errHub)
		if errSpoke != nil || errHub != nil {
			continue
		}
		_, hasSpoke := toHub[s]
		_, hasHub := toSpoke[h]
		if hasSpoke && hasHub {
			l.err = errors.Join(l.err, fmt.Errorf("the pair of %v and %v has no effect, because both are in pairs before it", s, h))
		}
		if !hasSpoke {
			toHub[s] = h
		}
		if !hasHub {
			toSpoke[h] = s
		}
		l.spokeKeeps = l.spokeKeeps || hasHub
		l.hubKeeps = l.hubKeeps || hasSpoke
	}
	l.toHub = lookUp(toHub)
	l.toSpoke = lookUp(toSpoke)
	return l
}

func scalar(v any) (any, error) {
	v, err := toJSON(v)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case string, bool, int64, float64:
		return v, nil
	default:
		return nil, fmt.Errorf("value %v is neither a string nor a number nor a boolean", v)
	}
}

func lookUp(table map[any]any) func([]any) ([]any, error) {
	return func(values []any) ([]any, error) {
		switch v := values[0].(type) {
		case nil:
			return []any{nil}, nil
		case string, bool, int64, float64:
			if to, ok := table[v]; ok {
				return []any{to}, nil
			}
		}
		return nil, fmt.Errorf("value %v has no counterpart in the other version", values[0])
	}
}

// Split relates one field of a spoke to several of the hub. The functions get and return JSON values: string, bool,
// int64, float64, map[string]any and []any, and nil for a field that the object does not have. They must not modify their
// arguments, and must not fail for a value that the schema permits: see the package's section on failures. Split is not
// called if the object does not have the field, and join is not called if it has none of them.
func Split[T any](spoke string, hub []string, split func(T) ([]any, error), join func([]any) (T, error)) Lens {
	l := Lens{name: "Split", spoke: []string{spoke}, hub: hub}
	if split == nil || join == nil {
		l.err = errors.New("a function is missing")
	}
	l.toHub = func(values []any) ([]any, error) {
		if values[0] == nil {
			return make([]any, len(hub)), nil
		}
		v, ok := values[0].(T)
		if !ok {
			return nil, fmt.Errorf("it is a %T, not a %s", values[0], reflect.TypeFor[T]())
		}
		parts, err := split(v)
		if err == nil && len(parts) != len(hub) {
			err = fmt.Errorf("the function returned %d values for %d fields", len(parts), len(hub))
		}
		return parts, err
	}
	l.toSpoke = func(values []any) ([]any, error) {
		if !anyPresent(values) {
			return []any{nil}, nil
		}
		v, err := join(values)
		return []any{v}, err
	}
	return l
}

// Join relates several fields of a spoke to one of the hub. It is the counterpart of [Split].
func Join[T any](spoke []string, hub string, join func([]any) (T, error), split func(T) ([]any, error)) Lens {
	l := Split(hub, spoke, split, join)
	return Lens{name: "Join", spoke: l.hub, hub: l.spoke, toHub: l.toSpoke, toSpoke: l.toHub, err: l.err}
}

func anyPresent(values []any) bool {
	for _, v := range values {
		if v != nil {
			return true
		}
	}
	return false
}

// Wrap relates a value of a spoke to a list of such values in the hub. The spoke shows the first item of the list. The other
// items are kept, until a client of the spoke changes the value.
func Wrap(spoke, hub string) Lens {
	return Lens{
		name: "Wrap", spoke: []string{spoke}, hub: []string{hub}, toHub: wrap, toSpoke: unwrap, hubKeeps: true,
	}
}

// Unwrap relates a list of values of a spoke to one such value in the hub. It is the counterpart of [Wrap].
func Unwrap(spoke, hub string) Lens {
	return Lens{
		name: "Unwrap", spoke: []string{spoke}, hub: []string{hub}, toHub: unwrap, toSpoke: wrap, spokeKeeps: true,
	}
}

func wrap(values []any) ([]any, error) {
	if values[0] == nil {
		return values, nil
	}
	return []any{[]any{values[0]}}, nil
}

func unwrap(values []any) ([]any, error) {
	if list, ok := values[0].([]any); ok && len(list) > 0 {
		return list[:1], nil
	}
	return []any{nil}, nil
}

// Each applies lenses to each object in a list, or in a map whose keys are no field names. The list or map may also move.
// The paths of the lenses begin at such an object.
func Each(spoke, hub string, lenses ...Lens) Lens {
	l := Lens{name: "Each", spoke: []string{spoke}, hub: []string{hub}, each: lenses}
	if len(lenses) == 0 {
		l.err = errors.New("there are no lenses")
	}
	return l
}
