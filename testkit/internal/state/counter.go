package state

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Names of fields that count what a fault causes: CountsStarts matches the starts of a process, and CountsAttempts starts,
// attempts and failures. The words of a name begin with a capital letter, or after a separator.
var (
	CountsStarts   = regexp.MustCompile(`(?:^s|^res|[._/-]s|[._/-]res|S|Res)tart` + plural)
	CountsAttempts = regexp.MustCompile(CountsStarts.String() + `|` +
		`(?:^r|[._/-]r|R)etr(?:ies$|(?:y|ies)` + count + `)|(?:^t|[._/-]t|T)ries$|(?:^a|[._/-]a|A)ttempt(?:$|` + plural + `)|` +
		`(?:^f|[._/-]f|F)ailure` + plural + `|(?:^e|[._/-]e|E)rror` + plural)
)

// Ends of such names.
const (
	count  = `[._-]?(?:[Cc]ount(?:er)?|[Tt]otal|[Nn]umber)$`
	plural = `(?:s$|s?` + count + `)`
)

// AllowCounters returns the wanted state with the numbers of the other one where these are up to most greater, the name of
// the field matches counts, and the number never decreases in the sequence of the wanted states, which ends with the wanted
// one. It returns the paths of these fields as well.
func AllowCounters(wanted []State, got State, most int64, counts *regexp.Regexp) (State, []string) {
	want := wanted[len(wanted)-1]
	a := &allowance{most: most, counts: counts, highest: map[string]int64{}}
	for _, s := range wanted {
		for key, v := range s {
			a.note(key, v)
		}
	}
	out := maps.Clone(want)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if other, ok := got[key]; ok {
			out[key] = a.value(key, "", want[key], other)
		}
	}
	return out, a.paths
}

type allowance struct {
	most   int64
	counts *regexp.Regexp
	paths  []string

	highest map[string]int64 // number at each path in all wanted states
}

// note records the numbers in a wanted value.
func (a *allowance) note(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			a.note(path+"."+key, x)
		}
	case []any:
		for i, x := range v {
			a.note(fmt.Sprintf("%s[%d]", path, i), x)
		}
	default:
		if n, ok := number(v); ok {
			a.highest[path] = max(n, a.highest[path])
		}
	}
}

func (a *allowance) value(path, name string, want, got any) any {
	x, isMap := want.(map[string]any)
	y, alsoMap := got.(map[string]any)
	p, isList := want.([]any)
	q, alsoList := got.([]any)
	switch {
	case isMap && alsoMap:
		out := maps.Clone(x)
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if other, ok := y[key]; ok {
				out[key] = a.value(path+"."+key, key, x[key], other)
			}
		}
		return out
	case isList && alsoList && len(p) == len(q):
		out := slices.Clone(p)
		for i := range p {
			out[i] = a.value(fmt.Sprintf("%s[%d]", path, i), name, p[i], q[i])
		}
		return out
	}
	before, ok := number(want)
	after, alsoNumber := number(got)
	if ok && alsoNumber && after > before && after-before <= a.most && a.highest[path] <= before && a.counts.MatchString(name) {
		a.paths = append(a.paths, path)
		return got
	}
	return want
}

// number returns a whole number, which may be a text.
func number(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == float64(int64(v))
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}
