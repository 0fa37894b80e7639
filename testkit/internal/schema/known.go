package schema

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A knownSchema is a part of the Kubernetes API, or a convention of operators, that can be recognized in a schema.
type knownSchema struct {
	matches func(n *node) bool
	// scalar replaces the variants that the type suggests.
	scalar func(n *node, current any) []variant
	// whole is added to the variants that the type suggests.
	whole func(n *node, current any) []variant
}

var (
	quantityPattern = regexp.MustCompile(`KMGTPE`)
	sizeName        = regexp.MustCompile(`(?i)(storage|size|capacity|memory)$`)
	scheduleName    = regexp.MustCompile(`(?i)(schedule|cron)$`)
	imageName       = regexp.MustCompile(`(^i|I)mage$`)
	durationName    = regexp.MustCompile(`(?i)(timeout|interval|period|duration|ttl|delay|backoff|after|window|lifetime)$`)
	countName       = regexp.MustCompile(
		`(?i)(replicas|instances|shards|nodes|members|count|size|parallelism|completions|workers|partitions|backends)$`)
	portName = regexp.MustCompile(`(^p|P)ort$`)
)

// knownSchemas is ordered: the first match decides.
var knownSchemas = []*knownSchema{
	{matches: hasProperties(object, "limits", "requests"), whole: literals(resources)},
	{matches: hasProperties(object, "failureThreshold", "periodSeconds"), whole: literals(probes)},
	{matches: hasProperties(object, "nodeAffinity", "podAntiAffinity"), whole: literals(affinities)},
	{matches: hasProperties(object, "matchLabels", "matchExpressions"), whole: literals(selectors)},
	{matches: hasProperties(object, "runAsNonRoot", "runAsUser"), whole: literals(securityContexts)},
	{matches: hasProperties(array, "effect", "key", "operator"), whole: literals(tolerations)},
	{matches: hasProperties(array, "maxSkew", "topologyKey"), whole: literals(spreads)},
	{matches: hasProperties(array, "name", "value", "valueFrom"), whole: appended(environment)},
	{matches: stringMapCalled(`(?i)labels$`), whole: entry("testkit.example.com/label", "testkit")},
	{matches: stringMapCalled(`(?i)annotations$`), whole: entry("testkit.example.com/annotation", "é \"q\"\nz: -")},
	{matches: stringMapCalled(`(?i)nodeSelector$`), whole: entry("testkit.example.com/no-such-node", "true")},
	{matches: func(n *node) bool {
		return (n.kind() == intOrString || n.kind() == text) && n.hasPattern(quantityPattern) ||
			n.plainText() && sizeName.MatchString(n.name)
	}, scalar: quantities},
	{matches: func(n *node) bool { return n.plainText() && scheduleName.MatchString(n.name) }, scalar: schedules},
	{matches: func(n *node) bool { return n.plainText() && imageName.MatchString(n.name) }, scalar: images},
	{matches: func(n *node) bool { return n.plainText() && durationName.MatchString(n.name) }, scalar: periods},
	{matches: func(n *node) bool { return n.kind() == integer && portName.MatchString(n.name) }, scalar: ports},
	recognizedCount,
}

var (
	recognizedCount = &knownSchema{
		matches: func(n *node) bool { return n.kind() == integer && countName.MatchString(n.name) },
		scalar:  counts,
	}
	// recognizedMetadata describes the labels and annotations of the object itself.
	recognizedMetadata = &knownSchema{whole: func(n *node, current any) []variant {
		all := entry("testkit.example.com/"+strings.TrimSuffix(n.name, "s"), newKey)(n, current)
		if now, ok := current.(map[string]any); ok && len(now) > 0 {
			all = append(all, variant{kind: "unset", value: Absent, semantic: true})
		}
		return all
	}}
)

func recognize(n *node) *knownSchema {
	for _, k := range knownSchemas {
		if k.matches(n) {
			return k
		}
	}
	return nil
}

// hasProperties recognizes an object, or a list of objects, by a combination of properties that is unique to it.
func hasProperties(kind string, properties ...string) func(n *node) bool {
	return func(n *node) bool {
		s := n.Structural
		if kind == array && s.Items != nil {
			s = s.Items
		}
		for _, p := range properties {
			if _, ok := s.Properties[p]; !ok {
				return false
			}
		}
		return n.kind() == kind
	}
}

func stringMapCalled(pattern string) func(n *node) bool {
	name := regexp.MustCompile(pattern)
	return func(n *node) bool {
		a := n.AdditionalProperties
		return n.kind() == object && name.MatchString(n.name) && a != nil && a.Structural != nil && a.Structural.Type == text
	}
}

func (n *node) hasPattern(pattern *regexp.Regexp) bool {
	for _, p := range n.limits.patterns {
		if pattern.MatchString(p.String()) {
			return true
		}
	}
	return false
}

// plainText reports whether the name alone indicates the meaning of the string.
func (n *node) plainText() bool {
	return n.kind() == text && n.limits.format == "" && len(n.limits.enum) == 0
}

// A literal is a named value in JSON.
type literal struct{ kind, json string }

func (l literal) value() any {
	var value any
	if err := utiljson.Unmarshal([]byte(l.json), &value); err != nil {
		panic("testkit: a known value is not JSON: " + l.json)
	}
	return value
}

func literals(all []literal) func(n *node, current any) []variant {
	return func(*node, any) []variant {
		variants := make([]variant, len(all))
		for i, l := range all {
			variants[i] = variant{kind: l.kind, value: l.value(), semantic: true}
		}
		return variants
	}
}

// appended adds each of the items to the list.
func appended(items []literal) func(n *node, current any) []variant {
	return func(_ *node, current any) []variant {
		now, _ := current.([]any)
		var variants []variant
		for _, item := range items {
			list := slices.Concat(now, []any{item.value()})
			variants = append(variants, variant{kind: item.kind, value: list, semantic: true})
		}
		return variants
	}
}

// entry adds a key to a map, or gives it another value.
func entry(key, value string) func(n *node, current any) []variant {
	return func(_ *node, current any) []variant {
		now, _ := current.(map[string]any)
		changed := maps.Clone(now)
		if changed == nil {
			changed = map[string]any{}
		}
		added := variant{kind: "add:" + key, value: changed, semantic: true}
		changed[key] = value
		if _, ok := now[key]; ok {
			added.kind = "change:" + key
			changed[key] = value + "-2"
		}
		return []variant{added}
	}
}
