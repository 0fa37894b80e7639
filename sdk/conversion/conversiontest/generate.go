package conversiontest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

func copyOf(object map[string]any) map[string]any { return runtime.DeepCopyJSON(object) }

// generator generates values of a schema. Most are valid, but not all: of CEL rules it knows only patterns of texts, and it
// does not know anyOf, oneOf and not.
type generator struct {
	*rand.Rand
}

// object returns a custom resource of a version.
func (g generator) object(v *version, apiVersion, kind string) map[string]any {
	object, _ := g.properties(v.schema, 0).(map[string]any)
	metadata := map[string]any{
		"name": g.word(), "namespace": "default", "uid": "8a6c", "resourceVersion": "7", "generation": int64(2),
	}
	if g.chance(2) {
		metadata["annotations"] = map[string]any{"example.com/" + g.word(): g.text(0, 20)}
	}
	if g.chance(2) {
		metadata["labels"] = map[string]any{g.word(): g.word()}
	}
	object["apiVersion"] = apiVersion
	object["kind"] = kind
	object["metadata"] = metadata
	v.setDefaults(object)
	return object
}

// chance is true in one of n cases.
func (g generator) chance(n int) bool { return g.IntN(n) == n-1 }

const maxDepth = 12

func (g generator) value(s *structural.Structural, depth int) any {
	v := s.ValueValidation
	if v == nil {
		v = &structural.ValueValidation{}
	}
	switch {
	case s.Nullable && g.chance(10):
		return nil
	case len(v.Enum) > 0:
		return runtime.DeepCopyJSONValue(v.Enum[g.IntN(len(v.Enum))].Object)
	case s.XIntOrString:
		if v.Pattern == "" || g.chance(2) {
			return int64(g.IntN(100))
		}
		return g.matching(v.Pattern)
	}
	switch s.Type {
	case "object":
		return g.properties(s, depth)
	case "array":
		return g.list(s, v, depth)
	case "integer":
		return int64(math.Round(g.number(v)))
	case "number":
		return g.number(v)
	case "boolean":
		return g.chance(2)
	case "string":
		return g.str(s, v)
	default: // any value
		return map[string]any{g.word(): int64(g.IntN(3))}
	}
}

func (g generator) properties(s *structural.Structural, depth int) any {
	object := map[string]any{}
	if s.XEmbeddedResource {
		object = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": g.word()}}
	}
	var required []string
	if s.ValueValidation != nil {
		required = s.ValueValidation.Required
	}
	for _, name := range sortedKeys(s.Properties) {
		if depth == 0 && inHeader(name) {
			continue
		}
		if slices.Contains(required, name) || depth < maxDepth && g.IntN(8) > 2 {
			p := s.Properties[name]
			object[name] = g.value(&p, depth+1)
		}
	}
	g.entries(object, s, depth)
	return object
}

// inHeader reports whether a field of an object is not its content.
func inHeader(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

// entries adds the values of a map, and fields that the schema does not name.
func (g generator) entries(object map[string]any, s *structural.Structural, depth int) {
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil && depth < maxDepth {
		for range g.count(s.ValueValidation, 3) {
			object[g.word()] = g.value(s.AdditionalProperties.Structural, depth+1)
		}
	}
	if s.XPreserveUnknownFields && g.chance(2) {
		object["x"+g.word()] = []any{g.text(0, 5), int64(g.IntN(3)), map[string]any{}}
	}
}

// count returns a number of properties or items.
func (g generator) count(v *structural.ValueValidation, most int) int {
	least := 0
	if v != nil {
		for _, limit := range []*int64{v.MinItems, v.MinProperties} {
			if limit != nil {
				least = int(*limit)
			}
		}
		for _, limit := range []*int64{v.MaxItems, v.MaxProperties} {
			if limit != nil {
				most = min(most, int(*limit))
			}
		}
	}
	return least + g.IntN(max(most-least, 0)+1)
}

func (g generator) list(s *structural.Structural, v *structural.ValueValidation, depth int) any {
	list := []any{}
	if s.Items == nil {
		return list
	}
	seen := map[string]bool{}
	for range g.count(v, 3) {
		item := g.value(s.Items, depth+1)
		if s.XListType != nil {
			key := fmt.Sprint(item)
			if m, ok := item.(map[string]any); ok && *s.XListType == "map" {
				values := make([]any, len(s.XListMapKeys))
				for i, name := range s.XListMapKeys {
					values[i] = m[name]
				}
				key = fmt.Sprintf("%#v", values)
			}
			if seen[key] && *s.XListType != "atomic" {
				continue
			}
			seen[key] = true
		}
		list = append(list, item)
	}
	return list
}

func (g generator) number(v *structural.ValueValidation) float64 {
	low, high := 0.0, 1000.0
	if v.Minimum != nil {
		low = *v.Minimum
		high = low + 1000
	}
	if v.Maximum != nil {
		high = *v.Maximum
		low = min(low, high)
	}
	n := low + math.Floor(g.Float64()*(high-low+1))
	if g.chance(8) {
		n = low
	}
	if v.MultipleOf != nil {
		n = math.Ceil(low / *v.MultipleOf)**v.MultipleOf + *v.MultipleOf*float64(g.IntN(5))
	}
	return n
}

// The times are valid for metav1.Time and metav1.MicroTime.
var formats = map[string][]string{
	"date-time": {"2026-11-26T10:00:00.000000Z", "1999-12-31T23:59:59.500000+02:00"}, "date": {"2026-11-26"},
	"duration": {"0s", "90s", "1h30m"}, "byte": {"", "aGVsbG8="}, "uuid": {"d2c1f7a8-5a35-4d6b-8c1c-0123456789ab"},
	"email": {"a@example.com"}, "uri": {"https://example.com/a?b=c"}, "ipv4": {"192.0.2.1"}, "ipv6": {"2001:db8::1"},
	"cidr": {"192.0.2.0/24"}, "hostname": {"example.com"}, "mac": {"00:00:5e:00:53:01"},
}

func (g generator) str(s *structural.Structural, v *structural.ValueValidation) string {
	if values := formats[v.Format]; values != nil {
		return values[g.IntN(len(values))]
	}
	if pattern := patternOf(s, v); pattern != "" {
		return g.matching(pattern)
	}
	least, most := 0, 12
	if v.MinLength != nil {
		least = int(*v.MinLength)
		most = max(most, least)
	}
	if v.MaxLength != nil {
		most = min(most, int(*v.MaxLength))
	}
	return g.text(least, most)
}

var matchesRule = regexp.MustCompile(`\bself\.matches\((r?)(?:'([^']*)'|"([^"]*)")\)`)

// patternOf returns the regular expression of a text, also that of a CEL rule `self.matches('...')`, or "".
func patternOf(s *structural.Structural, v *structural.ValueValidation) string {
	if v.Pattern != "" {
		return v.Pattern
	}
	for i := range s.XValidations {
		match := matchesRule.FindStringSubmatch(s.XValidations[i].Rule)
		if match == nil {
			continue
		}
		literal := match[2] + match[3]
		if match[1] == "r" {
			return literal
		}
		if pattern, err := strconv.Unquote(`"` + strings.ReplaceAll(literal, `"`, `\"`) + `"`); err == nil {
			return pattern
		}
	}
	return ""
}

func (g generator) word() string { return "n" + g.letters("abcd019", 1+g.IntN(4)) }

func (g generator) text(least, most int) string {
	return g.letters("abc XYZ019:/.-_~[]\"{}=,é\n", least+g.IntN(most-least+1))
}

func (g generator) letters(from string, n int) string {
	runes := []rune(from)
	var b strings.Builder
	for range n {
		b.WriteRune(runes[g.IntN(len(runes))])
	}
	return b.String()
}

// matching returns a text that matches a regular expression, or nearly: it ignores boundaries of words and inner anchors.
func (g generator) matching(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	g.match(&b, re)
	return b.String()
}

func (g generator) match(b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if n := len(re.Rune) / 2; n > 0 {
			i := g.IntN(n)
			low, high := re.Rune[2*i], min(re.Rune[2*i+1], re.Rune[2*i]+100)
			b.WriteRune(low + g.Int32N(high-low+1))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte("abc.0"[g.IntN(5)])
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			g.match(b, sub)
		}
	case syntax.OpAlternate:
		g.match(b, re.Sub[g.IntN(len(re.Sub))])
	case syntax.OpStar:
		g.repeat(b, re, 0, 3)
	case syntax.OpPlus:
		g.repeat(b, re, 1, 4)
	case syntax.OpQuest:
		g.repeat(b, re, 0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 {
			most = re.Min + 3
		}
		g.repeat(b, re, re.Min, min(most, re.Min+8))
	default: // anchors and empty matches
	}
}

func (g generator) repeat(b *strings.Builder, re *syntax.Regexp, least, most int) {
	for range least + g.IntN(most-least+1) {
		g.match(b, re.Sub[0])
	}
}
