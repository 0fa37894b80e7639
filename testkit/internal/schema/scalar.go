package schema

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
)

// A variant is one possible value of a property.
type variant struct {
	kind     string // unique among the variants of a property
	value    any    // or Absent
	semantic bool
}

// scalars returns the values, other than the current one, that a property may have if it is neither an object nor a
// list. The most ordinary is first.
func (n *node) scalars(current any) []variant {
	var all []variant
	if n.Default.Object != nil {
		all = append(all, variant{kind: "default", value: runtime.DeepCopyJSONValue(n.Default.Object)})
	}
	if len(n.limits.enum) > 0 {
		for _, member := range n.limits.enum {
			all = append(all, variant{kind: "member:" + describe(member), value: runtime.DeepCopyJSONValue(member)})
		}
		return n.fitting(all)
	}
	if n.known != nil && n.known.scalar != nil {
		if fitting := n.fitting(n.known.scalar(n, current)); len(fitting) > 0 {
			return append(n.fitting(all), fitting...)
		}
	}
	return n.fitting(append(all, n.generic(current)...))
}

// fitting returns the variants that the node allows.
func (n *node) fitting(all []variant) []variant {
	var fitting []variant // not in place: all may be a table
	for _, v := range all {
		if n.fits(v.value) {
			fitting = append(fitting, v)
		}
	}
	return fitting
}

func (n *node) generic(current any) []variant {
	switch n.kind() {
	case typeBoolean:
		return []variant{{kind: "true", value: true}, {kind: "false", value: false}}
	case typeInteger:
		return n.integerVariants(current)
	case typeNumber:
		return n.numberVariants(current)
	case typeString:
		return n.stringVariants(current)
	case typeIntOrString:
		return n.intOrStringVariants(current)
	default:
		return nil
	}
}

// largeInteger is the largest number that every integer type of the Kubernetes API can hold.
const largeInteger = math.MaxInt32

func (n *node) integerVariants(current any) []variant {
	l := n.limits
	all := []variant{{kind: "one", value: int64(1)}}
	if !math.IsInf(l.minimum, -1) {
		all = append(all, variant{kind: "minimum", value: integral(math.Ceil(l.minimum))})
	}
	if !math.IsInf(l.maximum, 1) {
		all = append(all, variant{kind: "maximum", value: integral(math.Floor(l.maximum))})
	}
	if now, ok := current.(int64); ok && now > math.MinInt64 && now < math.MaxInt64 {
		all = append(all, variant{kind: "plus-one", value: now + 1}, variant{kind: "minus-one", value: now - 1})
	}
	all = append(all,
		variant{kind: "zero", value: int64(0)}, variant{kind: "negative", value: int64(-1)},
		variant{kind: "large", value: int64(largeInteger)})
	if l.multipleOf >= 1 {
		all = append(all, variant{kind: "multiple", value: integral(l.multipleOf)},
			variant{kind: "next-multiple", value: integral(math.Ceil(max(l.minimum, 0)/l.multipleOf+1) * l.multipleOf)})
	}
	return all
}

// integral converts a bound to a number as JSON decodes it. Bounds beyond an int64 become its largest or smallest
// value.
func integral(f float64) any {
	switch {
	case f >= math.MaxInt64:
		return int64(math.MaxInt64)
	case f <= math.MinInt64:
		return int64(math.MinInt64)
	case f == math.Trunc(f):
		return int64(f)
	default:
		return f
	}
}

func (n *node) numberVariants(current any) []variant {
	l := n.limits
	all := []variant{
		{kind: "one", value: int64(1)},
		{kind: "half", value: 0.5},
		{kind: "zero", value: int64(0)},
		{kind: "negative", value: -1.5},
		{kind: "large", value: int64(largeInteger)},
	}
	if !math.IsInf(l.minimum, -1) {
		all = append(all, variant{kind: "minimum", value: integral(l.minimum)})
	}
	if !math.IsInf(l.maximum, 1) {
		all = append(all, variant{kind: "maximum", value: integral(l.maximum)})
	}
	if !math.IsInf(l.minimum, -1) && !math.IsInf(l.maximum, 1) {
		all = append(all, variant{kind: "middle", value: integral(l.minimum/2 + l.maximum/2)})
	}
	switch now := current.(type) {
	case int64:
		all = append(all, variant{kind: "more", value: float64(now) + 0.5})
	case float64:
		all = append(all, variant{kind: "double", value: integral(now * 2)})
	}
	if l.multipleOf > 0 {
		all = append(all, variant{kind: "multiple", value: integral(l.multipleOf)})
	}
	return all
}

func (n *node) intOrStringVariants(current any) []variant {
	if len(n.limits.patterns) > 0 {
		ints := variant{kind: "one", value: int64(1)}
		return append([]variant{ints}, n.stringVariants(current)...)
	}
	all := []variant{
		{kind: "one", value: int64(1)},
		{kind: "zero", value: int64(0)},
		{kind: "percent", value: "50%"},
		{kind: "all", value: "100%"},
		{kind: "none", value: "0%"},
		{kind: "text", value: newKey},
		{kind: "large", value: int64(largeInteger)},
		{kind: "negative", value: int64(-1)},
	}
	switch now := current.(type) {
	case int64:
		all = append(all, variant{kind: "plus-one", value: now + 1})
	case string:
		if i, ok := wholeNumber(now); ok {
			all = append(all, variant{kind: "as-number", value: i})
		}
	}
	return all
}

// fits reports whether a scalar is within the limits of the node itself.
func (n *node) fits(value any) bool {
	l := n.limits
	if len(l.enum) > 0 {
		return slices.ContainsFunc(l.enum, func(member any) bool { return reflect.DeepEqual(member, value) })
	}
	switch v := value.(type) {
	case int64:
		small := v >= math.MinInt32 && v <= math.MaxInt32
		return n.holdsType(typeInteger, typeNumber) && l.holds(float64(v)) && (small || l.format != "int32")
	case float64:
		return n.holdsType(typeNumber) && l.holds(v)
	case string:
		return n.holdsType(typeString) && l.holdsText(v)
	default:
		return true
	}
}

func (n *node) holdsType(types ...string) bool {
	if n.kind() == typeIntOrString {
		return types[0] != typeNumber
	}
	return n.Type == "" || slices.Contains(types, n.Type)
}

func (l *limits) holds(v float64) bool {
	return v >= l.minimum && v <= l.maximum &&
		(l.multipleOf == 0 || math.Mod(v, l.multipleOf) == 0)
}

func (l *limits) holdsText(s string) bool {
	length := int64(utf8.RuneCountInString(s))
	return length >= l.minLength && length <= l.maxLength &&
		!slices.ContainsFunc(l.patterns, func(re *regexp.Regexp) bool { return !re.MatchString(s) })
}

// longLength exceeds the limits of a label's value, of a Service's name and of any object's name.
const longLength = 300

func (n *node) stringVariants(current any) []variant {
	l := n.limits
	if samples := formats[l.format]; len(samples) > 0 && len(l.patterns) == 0 {
		return samples
	}
	if len(l.patterns) > 0 {
		return l.samples()
	}
	all := []variant{{kind: "other", value: newKey}}
	if now, ok := current.(string); ok && now != "" {
		all = []variant{{kind: "other", value: now + "-" + newKey}, {kind: "unrelated", value: newKey}}
		if _, err := time.ParseDuration(now); err == nil {
			all = append(all, durations...)
		}
	}
	if l.minLength > 0 && l.minLength <= longestString {
		all = append(all, variant{kind: "shortest", value: strings.Repeat("a", int(l.minLength))})
	}
	if l.maxLength < longestString {
		all = append(all, variant{kind: "longest", value: strings.Repeat("a", int(max(l.maxLength, 0)))})
	}
	return append(all,
		variant{kind: "empty", value: ""},
		variant{kind: "long", value: strings.Repeat("a", longLength)},
		variant{kind: "special", value: `é "q" 's' {{ .x }} $(y) # z: -`})
}
