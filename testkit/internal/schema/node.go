package schema

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// A node is one place in the schema, present in an object or not.
type node struct {
	*structural.Structural

	// nested holds the validations of this place from the allOf, oneOf and anyOf of its ancestors.
	nested []*structural.NestedValueValidation
	limits limits
	known  *knownSchema // nil if nothing is recognized

	name     string // of the property; in an item or entry, of the list or map
	property string // as in Change.Property
	steps    Path   // from the root; see anyElement
	fields   map[string]*node
	element  *node // a list's items or a map's entries, else nil
}

// anyElement is the step to an item of a list or to an entry of a map.
var anyElement = Element{item: true}

// Types of values, in the terms of the schema.
const (
	typeObject  = "object"
	typeArray   = "array"
	typeString  = "string"
	typeInteger = "integer"
	typeNumber  = "number"
	typeBoolean = "boolean"
	// These two have no type.
	typeIntOrString = "int-or-string"
	typeAny         = "any"
)

// kind returns the node's type.
func (n *node) kind() string {
	switch {
	case n.XIntOrString:
		return typeIntOrString
	case n.Type == "":
		return typeAny
	default:
		return n.Type
	}
}

// build creates the node of a place in the schema and the nodes below it.
func build(s *structural.Structural, name string, steps Path, nested []*structural.NestedValueValidation) *node {
	n := &node{Structural: s, name: name, steps: steps, property: propertyName(steps), nested: nested}
	n.limits = n.limitsFor("")
	n.known = recognize(n)
	if len(s.Properties) > 0 {
		n.fields = make(map[string]*node, len(s.Properties))
	}
	for name, p := range s.Properties {
		var nested []*structural.NestedValueValidation
		for _, v := range n.rules(name) {
			if rule, ok := v.Properties[name]; ok {
				nested = append(nested, &rule)
			}
		}
		n.fields[name] = build(&p, name, steps.Then(Field(name)), nested)
	}
	n.element = n.buildElement()
	return n
}

func (n *node) buildElement() *node {
	s := n.Items
	if n.AdditionalProperties != nil && n.AdditionalProperties.Structural != nil {
		s = n.AdditionalProperties.Structural
	}
	if s == nil {
		return nil
	}
	var nested []*structural.NestedValueValidation
	for _, v := range n.rules("") {
		if v.Items != nil {
			nested = append(nested, v.Items)
		}
		if v.AdditionalProperties != nil {
			nested = append(nested, v.AdditionalProperties)
		}
	}
	return build(s, n.name, n.steps.Then(anyElement), nested)
}

// names returns the names of the properties, sorted.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.fields)) }

func propertyName(steps Path) string {
	var b strings.Builder
	for _, step := range steps {
		switch {
		case step == anyElement:
			b.WriteString("[*]")
		case !plainName.MatchString(step.Name):
			b.WriteString("[" + step.Name + "]")
		case b.Len() == 0:
			b.WriteString(step.Name)
		default:
			b.WriteString("." + step.Name)
		}
	}
	return b.String()
}

// rules returns all validations of the node, flattened: its own, those in allOf, and one alternative of each oneOf and
// anyOf. It is the alternative that requires want, or else the first.
func (n *node) rules(want string) []*structural.NestedValueValidation {
	var all []*structural.NestedValueValidation
	if n.ValueValidation != nil {
		all = flatten(all, &structural.NestedValueValidation{ValueValidation: *n.ValueValidation}, want)
	}
	for _, v := range n.nested {
		all = flatten(all, v, want)
	}
	return all
}

func flatten(
	all []*structural.NestedValueValidation, v *structural.NestedValueValidation, want string,
) []*structural.NestedValueValidation {
	all = append(all, v)
	for i := range v.AllOf {
		all = flatten(all, &v.AllOf[i], want)
	}
	for _, alternatives := range [][]structural.NestedValueValidation{v.OneOf, v.AnyOf} {
		if len(alternatives) == 0 {
			continue
		}
		chosen := slices.IndexFunc(alternatives, func(a structural.NestedValueValidation) bool {
			return slices.Contains(a.Required, want)
		})
		all = flatten(all, &alternatives[max(chosen, 0)], want)
	}
	return all
}

// limits combines all bounds on a value.
type limits struct {
	format             string
	patterns           []*regexp.Regexp
	enum               []any
	minimum, maximum   float64
	multipleOf         float64
	minLength          int64
	maxLength          int64
	minItems, maxItems int64
	required           []string
}

// Generated values never exceed these limits, even if the schema allows more.
const (
	longestString = 8192
	longestList   = 8
)

func (n *node) limitsFor(want string) limits {
	l := limits{
		minimum: math.Inf(-1), maximum: math.Inf(1),
		maxLength: longestString, maxItems: longestList,
	}
	for _, v := range n.rules(want) {
		l.numbers(&v.ValueValidation)
		l.minLength = larger(l.minLength, v.MinLength)
		l.maxLength = smaller(l.maxLength, v.MaxLength)
		l.minItems = larger(l.minItems, v.MinItems)
		l.maxItems = smaller(l.maxItems, v.MaxItems)
		l.format = cmp.Or(l.format, v.Format)
		if re, err := regexp.Compile(v.Pattern); err == nil && v.Pattern != "" {
			l.patterns = append(l.patterns, re)
		}
		for _, member := range v.Enum {
			l.enum = append(l.enum, member.Object)
		}
		for _, name := range v.Required {
			if !slices.Contains(l.required, name) {
				l.required = append(l.required, name)
			}
		}
	}
	l.maxItems = max(l.maxItems, l.minItems)
	slices.Sort(l.required)
	return l
}

func (l *limits) numbers(v *structural.ValueValidation) {
	if v.Minimum != nil {
		low := *v.Minimum
		if v.ExclusiveMinimum {
			low = math.Floor(low) + 1
		}
		l.minimum = max(l.minimum, low)
	}
	if v.Maximum != nil {
		high := *v.Maximum
		if v.ExclusiveMaximum {
			high = math.Ceil(high) - 1
		}
		l.maximum = min(l.maximum, high)
	}
	if v.MultipleOf != nil {
		l.multipleOf = *v.MultipleOf
	}
}

func larger(a int64, b *int64) int64 {
	if b == nil {
		return a
	}
	return max(a, *b)
}

func smaller(a int64, b *int64) int64 {
	if b == nil {
		return a
	}
	return min(a, *b)
}

// unique reports whether the list must not contain equal items.
func (n *node) unique() bool {
	if n.XListType != nil && *n.XListType == "set" {
		return true
	}
	return slices.ContainsFunc(n.rules(""), func(v *structural.NestedValueValidation) bool { return v.UniqueItems })
}

// keys returns the properties that identify the items of a list, if the list is a map.
func (n *node) keys() []string {
	if n.XListType != nil && *n.XListType == "map" {
		return n.XListMapKeys
	}
	return nil
}

// open reports whether the object may hold properties that the schema does not name.
func (n *node) open() bool {
	return n.XPreserveUnknownFields || n.AdditionalProperties != nil && n.AdditionalProperties.Structural == nil &&
		n.AdditionalProperties.Bool
}
