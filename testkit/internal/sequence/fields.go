package sequence

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// fields removes fields and items, the largest parts first: from all manifests at once, and then from single manifests
// if these differ already.
func (s *shrinker) fields() {
	for depth := 1; ; depth++ {
		paths := s.paths(func(p schema.Path, _ any) bool { return len(p) == depth && removable(p) })
		if len(paths) == 0 && depth > 1 {
			return
		}
		s.remove(paths, indexes(len(s.best)))
		for i := range s.best {
			s.remove(paths, []int{i})
		}
	}
}

// remove removes as many of the paths as possible from some of the manifests, without adding differences between them.
func (s *shrinker) remove(paths []schema.Path, from []int) {
	whole := s.best
	s.minimize(len(paths), func(keep []int) bool {
		candidate := slices.Clone(whole)
		for i, path := range slices.Backward(paths) { // backward, so that the indexes of items stay valid
			if slices.Contains(keep, i) {
				continue
			}
			for _, j := range from {
				candidate[j] = without(candidate[j], path)
			}
		}
		return steps(candidate) <= steps(whole) && s.try(candidate)
	})
}

func without(obj *unstructured.Unstructured, path schema.Path) *unstructured.Unstructured {
	changed, _ := schema.Change{Path: path, To: schema.Absent}.Apply(obj)
	return changed
}

// removable reports whether an object without the field is still a valid manifest.
func removable(p schema.Path) bool {
	switch p[0].Name {
	case "apiVersion", "kind":
		return false
	case "metadata":
		return len(p) > 1 && p[1].Name != "name" && p[1].Name != "generateName" && p[1].Name != "namespace"
	default:
		return true
	}
}

// paths returns the places of the manifests for which want is true, in the order of their names and indexes.
func (s *shrinker) paths(want func(schema.Path, any) bool) []schema.Path {
	found := map[string]schema.Path{}
	for _, obj := range s.best {
		visit(nil, obj.Object, func(p schema.Path, value any) {
			if want(p, value) {
				found[p.String()] = p
			}
		})
	}
	return slices.SortedFunc(maps.Values(found), compare)
}

func compare(a, b schema.Path) int {
	return slices.CompareFunc(a, b, func(x, y schema.Element) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.Index, y.Index))
	})
}

// visit calls f for everything below p.
func visit(p schema.Path, value any, f func(schema.Path, any)) {
	if len(p) > 0 {
		f(p, value)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			visit(p.Then(schema.Field(name)), child, f)
		}
	case []any:
		for i, child := range v {
			visit(p.Then(schema.Item(i)), child, f)
		}
	}
}

// values simplifies numbers and strings: in all manifests that share the value, and then in each.
func (s *shrinker) values() {
	paths := s.paths(func(p schema.Path, value any) bool { return removable(p) && len(simpler(value)) > 0 })
	for _, path := range paths {
		for i := range s.best {
			for !s.cut && s.simplify(path, i) {
				continue
			}
		}
	}
}

// simplify simplifies the value at path in the i-th manifest and in all manifests with the same value. It returns false
// if no simpler value fails.
func (s *shrinker) simplify(path schema.Path, i int) bool {
	whole := s.best
	now := path.Get(whole[i].Object)
	for _, value := range simpler(now) {
		everywhere, here := slices.Clone(whole), slices.Clone(whole)
		for j, obj := range whole {
			if j == i || path.Get(obj.Object) == now {
				everywhere[j], _ = schema.Change{Path: path, To: value}.Apply(obj)
			}
		}
		here[i] = everywhere[i]
		if s.try(everywhere) || s.try(here) {
			return true
		}
	}
	return false
}

// longest is the length up to which a string is not shortened.
const longest = 8

// simpler returns simpler values than the given one, the simplest first. Repeating it always terminates.
func simpler(value any) []any {
	var all []any
	switch v := value.(type) {
	case int64:
		// Towards 0, so that the distance shrinks each time.
		for _, n := range []int64{0, 1, v / 2, v - sign(v)} {
			if magnitude(n) < magnitude(v) || n > 0 && v == -n {
				all = append(all, n)
			}
		}
	case float64:
		all = []any{int64(0), int64(1)}
	case string:
		if runes := []rune(v); len(runes) > longest {
			all = []any{string(runes[:longest/2]), string(runes[:len(runes)/2])}
		}
	}
	return all
}

func sign(v int64) int64 {
	if v < 0 {
		return -1
	}
	return 1
}

// magnitude returns the distance of a number from 0. Unlike an absolute value it cannot overflow.
func magnitude(v int64) uint64 {
	if v < 0 {
		return uint64(^v) + 1 //nolint:gosec // ^v is -v-1, which is not negative
	}
	return uint64(v)
}
