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
	quantityPattern     = regexp.MustCompile(`KMGTPE`)
	sizeNamePattern     = regexp.MustCompile(`(?i)(storage|size|capacity|memory)$`)
	scheduleNamePattern = regexp.MustCompile(`(?i)(schedule|cron)$`)
	imageNamePattern    = regexp.MustCompile(`(^i|I)mage$`)
	durationNamePattern = regexp.MustCompile(`(?i)(timeout|interval|period|duration|ttl|delay|backoff|after|window|lifetime)$`)
	countNamePattern    = regexp.MustCompile(
		`(?i)(replicas|instances|shards|nodes|members|count|size|parallelism|completions|workers|partitions|backends)$`)
	portNamePattern = regexp.MustCompile(`(^p|P)ort$`)
)

// knownSchemas is ordered: the first match decides.
var knownSchemas = []*knownSchema{
	{matches: hasProperties(typeObject, "limits", "requests"), whole: literalVariants(resources)},
	{matches: hasProperties(typeObject, "failureThreshold", "periodSeconds"), whole: literalVariants(probes)},
	{matches: hasProperties(typeObject, "nodeAffinity", "podAntiAffinity"), whole: literalVariants(affinities)},
	{matches: hasProperties(typeObject, "matchLabels", "matchExpressions"), whole: literalVariants(selectors)},
	{matches: hasProperties(typeObject, "runAsNonRoot", "runAsUser"), whole: literalVariants(securityContexts)},
	{matches: hasProperties(typeArray, "effect", "key", "operator"), whole: literalVariants(tolerations)},
	{matches: hasProperties(typeArray, "maxSkew", "topologyKey"), whole: literalVariants(spreads)},
	{matches: hasProperties(typeArray, "name", "value", "valueFrom"), whole: appendVariants(environment)},
	{matches: stringMapCalled(`(?i)labels$`), whole: entryVariants("testkit.example.com/label", "testkit")},
	{matches: stringMapCalled(`(?i)annotations$`), whole: entryVariants("testkit.example.com/annotation", "é \"q\"\nz: -")},
	{matches: stringMapCalled(`(?i)nodeSelector$`), whole: entryVariants("testkit.example.com/no-such-node", "true")},
	{matches: func(n *node) bool {
		return (n.kind() == typeIntOrString || n.kind() == typeString) && n.hasPattern(quantityPattern) ||
			n.plainText() && sizeNamePattern.MatchString(n.name)
	}, scalar: quantityVariants},
	{matches: func(n *node) bool { return n.plainText() && scheduleNamePattern.MatchString(n.name) }, scalar: scheduleVariants},
	{matches: func(n *node) bool { return n.plainText() && imageNamePattern.MatchString(n.name) }, scalar: imageVariants},
	{matches: func(n *node) bool { return n.plainText() && durationNamePattern.MatchString(n.name) }, scalar: durationVariants},
	{
		matches: func(n *node) bool { return n.kind() == typeInteger && portNamePattern.MatchString(n.name) },
		scalar:  portVariants,
	},
	countSchema,
}

var (
	countSchema = &knownSchema{
		matches: func(n *node) bool { return n.kind() == typeInteger && countNamePattern.MatchString(n.name) },
		scalar:  countVariants,
	}
	// metadataSchema describes the labels and annotations of the object itself.
	metadataSchema = &knownSchema{whole: func(n *node, current any) []variant {
		all := entryVariants("testkit.example.com/"+strings.TrimSuffix(n.name, "s"), newKey)(n, current)
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
		if kind == typeArray && s.Items != nil {
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
		return n.kind() == typeObject && name.MatchString(n.name) &&
			a != nil && a.Structural != nil && a.Structural.Type == typeString
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
	return n.kind() == typeString && n.limits.format == "" && len(n.limits.enum) == 0
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

func literalVariants(all []literal) func(n *node, current any) []variant {
	return func(*node, any) []variant {
		variants := make([]variant, len(all))
		for i, l := range all {
			variants[i] = variant{kind: l.kind, value: l.value(), semantic: true}
		}
		return variants
	}
}

// appendVariants returns variants that add one of the items to the list.
func appendVariants(items []literal) func(n *node, current any) []variant {
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

// entryVariants returns a variant that adds a key to a map, or gives it another value.
func entryVariants(key, value string) func(n *node, current any) []variant {
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
