package state

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Difference lists the differences between want and got by object and field: "- " for missing parts and "+ " for extra
// ones. It returns "" for equal states. Values in Secrets are hidden: only their equality shows.
func Difference(want, got State) string {
	d := &differ{}
	for _, key := range keys(want, got) {
		a, inWant := want[key]
		b, inGot := got[key]
		switch {
		case !inGot:
			d.printf("- %s", key)
		case !inWant:
			d.printf("+ %s", key)
		default:
			d.object = key
			d.secret = strings.HasPrefix(key, "secrets/")
			d.value("", a, b)
		}
	}
	return d.String()
}

// differ writes the differences within one object after the other.
type differ struct {
	strings.Builder

	object string // object name that is not written yet
	secret bool   // the object is a Secret
}

func (d *differ) value(path string, a, b any) {
	x, aMap := a.(map[string]any)
	y, bMap := b.(map[string]any)
	if aMap && bMap {
		for _, key := range keys(x, y) {
			d.value(strings.TrimPrefix(path+"."+key, "."), x[key], y[key])
		}
		return
	}
	if reflect.DeepEqual(a, b) {
		return
	}
	text := Text
	if d.secret && strings.HasPrefix(path, "data") {
		text = hidden
	}
	if d.object != "" {
		d.printf("  %s", d.object)
		d.object = ""
	}
	if a != nil {
		d.printf("-   %s: %s", path, text(a))
	}
	if b != nil {
		d.printf("+   %s: %s", path, text(b))
	}
}

func hidden(v any) string {
	sum := sha256.Sum256(fmt.Append(nil, v))
	return fmt.Sprintf("(hidden, %x)", sum[:2])
}

func (d *differ) printf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// keys returns the keys of both maps, sorted.
func keys[M ~map[string]any](a, b M) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for key := range maps.Keys(a) {
			if !yield(key) {
				return
			}
		}
		for key := range maps.Keys(b) {
			if !yield(key) {
				return
			}
		}
	}))
}
