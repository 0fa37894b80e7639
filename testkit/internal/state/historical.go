package state

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/homeostat-dev/homeostat/testkit/internal/instant"
)

// WithoutHistory removes from the states of a fresh and of an edited namespace what a correct operator may keep from
// earlier steps: times, counters, records such as a previous image, reasons, conditions that only one status has, and old
// revisions of an object. An absent value equals an empty one.
func WithoutHistory(fresh, edited State) (State, State) {
	fresh, edited = maps.Clone(fresh), renumbered(fresh, edited)
	for key, a := range fresh {
		b, ok := edited[key]
		if !ok {
			continue
		}
		x, xMap := a.(map[string]any)
		y, yMap := b.(map[string]any)
		if xMap && yMap {
			fresh[key], edited[key] = agree(nil, x, y)
		}
	}
	dropRevisions(fresh, edited)
	return fresh, edited
}

// agree returns copies of two values without the differences that history explains.
func agree(path []string, a, b map[string]any) (map[string]any, map[string]any) {
	x, y := maps.Clone(a), maps.Clone(b)
	for _, key := range keys(a, b) {
		p, inA := a[key]
		q, inB := b[key]
		below := append(slices.Clip(path), key)
		switch {
		case isRecord(below):
			delete(x, key)
			delete(y, key)
		case !inA || !inB:
			if isCondition(path) || isTime(p) || isTime(q) || isSame(below, p, q) {
				delete(x, key)
				delete(y, key)
			}
		default:
			x[key], y[key] = agreeValue(below, p, q)
		}
	}
	return x, y
}

func agreeValue(path []string, a, b any) (any, any) {
	x, xMap := a.(map[string]any)
	y, yMap := b.(map[string]any)
	p, pList := a.([]any)
	q, qList := b.([]any)
	switch {
	case xMap && yMap:
		return agree(path, x, y)
	case pList && qList && len(p) == len(q):
		p, q = slices.Clone(p), slices.Clone(q)
		for i := range p {
			p[i], q[i] = agreeValue(path, p[i], q[i])
		}
		return p, q
	case isSame(path, a, b):
		return a, a
	default:
		return a, b
	}
}

// isSame reports whether history explains the difference between two values, if there is one.
func isSame(path []string, fresh, edited any) bool {
	return reflect.DeepEqual(fresh, edited) || isEmpty(fresh) && isEmpty(edited) || isTime(fresh) && isTime(edited) ||
		isGrown(path, fresh, edited)
}

// isCondition reports whether a path is that of a map of conditions: see [FullStatus].
func isCondition(path []string) bool {
	return len(path) > 1 && path[0] == "status" && path[len(path)-1] == "conditions"
}

// recordWords are words in the names of fields, annotations and labels that record history.
var recordWords = map[string]bool{
	"attempt": true, "attempts": true, "collision": true, "count": true, "counter": true, "former": true, "generation": true,
	"history": true, "last": true, "latest": true, "message": true, "previous": true, "prior": true, "reason": true,
	"restart": true, "restarted": true, "restarts": true, "retries": true, "revision": true, "revisions": true,
	"rollback": true, "since": true, "transition": true,
}

// isRecord reports whether a field of the status, or a label or an annotation, records history according to its name.
func isRecord(path []string) bool {
	if !isSaid(path) {
		return false
	}
	name := path[len(path)-1]
	return name != "observedGeneration" && slices.ContainsFunc(words(name), func(word string) bool { return recordWords[word] })
}

// isSaid reports whether a path is in the status, or in labels or annotations, also those of a pod template.
func isSaid(path []string) bool {
	return len(path) > 1 && (path[0] == "status" || slices.Contains(path[:len(path)-1], "annotations") ||
		slices.Contains(path[:len(path)-1], "labels"))
}

// words returns the words of a name such as lastScheduleTime or example.com/previous-image, in lower case.
func words(name string) []string {
	var all []string
	start := 0
	runes := []rune(name)
	for i := range len(runes) + 1 {
		isEnd := i == len(runes) || !unicode.IsLetter(runes[i]) ||
			i > 0 && unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1])
		if !isEnd {
			continue
		}
		if word := strings.TrimFunc(string(runes[start:i]), func(r rune) bool { return !unicode.IsLetter(r) }); word != "" {
			all = append(all, strings.ToLower(word))
		}
		start = i
	}
	return all
}

// isGrown reports whether a number that is no part of a desired state is greater in the edited namespace: a counter. One
// that the fresh namespace lacks is 0.
func isGrown(path []string, fresh, edited any) bool {
	a, aOK := decimal(fresh)
	b, bOK := decimal(edited)
	_, isText := edited.(string)
	aOK = aOK || fresh == nil && !isText
	return aOK && bOK && b > a && isSaid(path)
}

// decimal returns a number, which may be a text.
func decimal(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// date matches a date in a text that is no RFC 3339 time.
var date = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

// isTime reports whether v is a time: a text with a date, or any form of a time near now.
func isTime(v any) bool {
	now := time.Now()
	text, _ := v.(string)
	return text == instant.Placeholder || date.MatchString(text) || instant.Is(v, now) || instant.Mask(text, now) != text
}

// isEmpty reports whether v is absent or a zero value.
func isEmpty(v any) bool {
	r := reflect.ValueOf(v)
	if !r.IsValid() || r.IsZero() {
		return true
	}
	switch r.Kind() {
	case reflect.Map:
		for _, x := range r.Seq2() {
			if !isEmpty(x.Interface()) {
				return false
			}
		}
		return true
	case reflect.Slice:
		return r.Len() == 0
	default:
		return false
	}
}

// ending matches the end of a name that may number or hash the content of an object: "-v3", "-7f9c4d8b".
var ending = regexp.MustCompile(`-(v?\d+|[0-9a-z]{5,})$`)

// stem returns a name without the number or the hash at its end, and that ending.
func stem(key string) (rest, end string) {
	m := ending.FindStringSubmatchIndex(key)
	if m == nil || !strings.ContainsAny(key[m[2]:], "0123456789") {
		return key, ""
	}
	return key[:m[0]], key[m[2]:]
}

// dropRevisions removes old revisions from the edited namespace.
func dropRevisions(fresh, edited State) {
	maps.DeleteFunc(edited, func(key string, _ any) bool { return IsOldRevision(fresh, key) })
}

// IsOldRevision reports whether an object is an old revision: the fresh namespace does not have it, but one that is named
// like it up to a hash.
func IsOldRevision(fresh State, key string) bool {
	rest, end := stem(key)
	if _, both := fresh[key]; both || end == "" || isNumber(end) {
		return false
	}
	for other := range fresh {
		if otherRest, otherEnd := stem(other); otherRest == rest && otherEnd != "" && !isNumber(otherEnd) {
			return true
		}
	}
	return false
}

// renumbered returns a copy of state got in which an object that state want lacks has the name of one that got lacks, if the
// names differ in the number at their end only. Revisions are numbered by what happened before.
func renumbered(want, got State) State {
	got = maps.Clone(got)
	missing := map[string][]string{} // names without their numbers -> names
	for _, key := range slices.Sorted(maps.Keys(want)) {
		rest, end := stem(key)
		if _, both := got[key]; !both && isNumber(end) {
			missing[rest] = append(missing[rest], key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		rest, end := stem(key)
		if _, both := want[key]; both || !isNumber(end) || len(missing[rest]) == 0 {
			continue
		}
		got[missing[rest][0]] = got[key]
		missing[rest] = missing[rest][1:]
		delete(got, key)
	}
	return got
}

// WithoutRecords removes from two states what a change of the cluster by others may change for good: the numbers in the
// names of revisions, and labels and annotations that record history.
func WithoutRecords(want, got State) (State, State) {
	want, got = maps.Clone(want), renumbered(want, got)
	for _, s := range []State{want, got} {
		for key, v := range s {
			if fields, ok := v.(map[string]any); ok {
				s[key] = withoutRecords(nil, fields)
			}
		}
	}
	return want, got
}

func withoutRecords(path []string, fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	for key, v := range fields {
		below := append(slices.Clip(path), key)
		if below[0] != "status" && isRecord(below) {
			continue
		}
		if inner, ok := v.(map[string]any); ok {
			v = withoutRecords(below, inner)
		}
		out[key] = v
	}
	return out
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(strings.TrimPrefix(text, "v"))
	return err == nil
}

// Explain returns the first difference between the states of a fresh and an edited namespace as a sentence that says which
// of them is odd, or "".
func Explain(fresh, edited State) string {
	for _, key := range keys(fresh, edited) {
		a, inFresh := fresh[key]
		b, inEdited := edited[key]
		switch {
		case !inFresh:
			return fmt.Sprintf("%s is still there, and a fresh operator does not create it", key)
		case !inEdited:
			return key + " is missing, and a fresh operator creates it"
		}
		if text := explainValue(key, "", a, b); text != "" {
			return text
		}
	}
	return ""
}

func explainValue(key, path string, a, b any) string {
	x, xMap := a.(map[string]any)
	y, yMap := b.(map[string]any)
	if xMap && yMap {
		for _, name := range keys(x, y) {
			if text := explainValue(key, strings.TrimPrefix(path+"."+name, "."), x[name], y[name]); text != "" {
				return text
			}
		}
		return ""
	}
	text := brief
	if strings.HasPrefix(key, "secrets/") && strings.HasPrefix(path, "data") {
		text = func(any) string { return "" }
	}
	switch {
	case reflect.DeepEqual(a, b):
		return ""
	case a == nil:
		return fmt.Sprintf("%s still has %s%s, and a fresh operator does not set it", key, path, text(b))
	case b == nil:
		return fmt.Sprintf("%s lacks %s%s, and a fresh operator sets it", key, path, text(a))
	default:
		return fmt.Sprintf("%s has another %s than a fresh operator sets%s", key, path, text(b))
	}
}

// brief returns a short value in parentheses, or "".
func brief(v any) string {
	const most = 60
	if text := Text(v); len(text) <= most {
		return " (" + text + ")"
	}
	return ""
}
