package schema

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	resources = []literal{
		{"requests", `{"requests": {"cpu": "100m", "memory": "64Mi"}}`},
		{"limits", `{"limits": {"cpu": "1", "memory": "128Mi"}}`},
		{"guaranteed", `{"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}}`},
		{"same-in-other-notation", `{"requests": {"cpu": "0.1", "memory": "65536Ki"}}`},
		{"requests-above-limits", `{"limits": {"cpu": "100m"}, "requests": {"cpu": "200m"}}`},
		{"more-than-any-node-has", `{"requests": {"cpu": "1M"}}`},
	}
	probes = []literal{
		{"exec", `{"exec": {"command": ["true"]}, "periodSeconds": 5}`},
		{"tcp", `{"tcpSocket": {"port": 8080}, "failureThreshold": 1}`},
		{"http-by-name", `{"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 3600}`},
		{"no-handler", `{"failureThreshold": 3}`},
		{"two-handlers", `{"exec": {"command": ["true"]}, "tcpSocket": {"port": 8080}}`},
	}
	affinities = []literal{
		{"spread", `{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
			{"labelSelector": {"matchLabels": {"app": "testkit"}}, "topologyKey": "kubernetes.io/hostname"}]}}`},
		{"no-such-node", `{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
			{"matchExpressions": [{"key": "testkit.example.com/none", "operator": "In", "values": ["x"]}]}]}}}`},
		{"preferred", `{"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm":
			{"labelSelector": {"matchLabels": {"app": "testkit"}}, "topologyKey": "topology.kubernetes.io/zone"}}]}}`},
	}
	selectors = []literal{
		{"everything", `{}`},
		{"labels", `{"matchLabels": {"app": "testkit"}}`},
		{"expressions", `{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["testkit"]}]}`},
		{"not-an-operator", `{"matchExpressions": [{"key": "app", "operator": "Is"}]}`},
	}
	securityContexts = []literal{
		{"restricted", `{"runAsNonRoot": true, "runAsUser": 65534}`},
		{"contradiction", `{"runAsNonRoot": true, "runAsUser": 0}`},
	}
	tolerations = []literal{
		{"everything", `[{"operator": "Exists"}]`},
		{"one-taint", `[{"key": "testkit.example.com/taint", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]`},
		{"for-a-while", `[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
			"tolerationSeconds": 0}]`},
	}
	spreads = []literal{
		{"soft", `[{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]`},
		{"hard", `[{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]`},
	}
	environment = []literal{
		{"add-variable", `{"name": "TESTKIT", "value": "1"}`},
		{"add-empty-variable", `{"name": "TESTKIT_EMPTY"}`},
		{
			"add-reference-to-nothing",
			`{"name": "TESTKIT_REF", "valueFrom": {"secretKeyRef": {"name": "testkit-none", "key": "a"}}}`,
		},
	}
)

// markSemantic marks variants as chosen for the property's meaning.
func markSemantic(all ...variant) []variant {
	for i := range all {
		all[i].semantic = true
	}
	return all
}

// maxObjects is the largest number of objects that an operator is asked to create.
const maxObjects = 10

func countVariants(n *node, current any) []variant {
	all := []variant{{kind: "one", value: int64(1)}, {kind: "three", value: int64(3)}, {kind: "zero", value: int64(0)}}
	now, ok := current.(int64)
	if ok {
		all = append([]variant{{kind: "plus-one", value: now + 1}, {kind: "minus-one", value: now - 1}}, all...)
	}
	if n.limits.minimum > 0 && n.limits.minimum <= maxObjects {
		all = append(all, variant{kind: "minimum", value: integral(n.limits.minimum)})
	}
	if n.limits.maximum <= maxObjects {
		all = append(all, variant{kind: "maximum", value: integral(n.limits.maximum)})
	}
	bounded := all[:0]
	for _, v := range all {
		// The scale subresource accepts no number below 0, even if the schema allows one.
		if i, ok := v.value.(int64); ok && i >= 0 && i <= max(maxObjects, now) {
			bounded = append(bounded, v)
		}
	}
	return markSemantic(bounded...)
}

func portVariants(n *node, _ any) []variant {
	if n.limits.minimum > 1 || n.limits.maximum < 8080 { // a range of its own
		return markSemantic(variant{kind: "first", value: integral(max(n.limits.minimum, 1))},
			variant{kind: "last", value: integral(min(n.limits.maximum, 65535))})
	}
	return markSemantic(variant{kind: "common", value: int64(8080)}, variant{kind: "privileged", value: int64(80)},
		variant{kind: "first", value: int64(1)}, variant{kind: "last", value: int64(65535)},
		variant{kind: "zero", value: int64(0)}, variant{kind: "beyond", value: int64(65536)})
}

func scheduleVariants(*node, any) []variant {
	return markSemantic(namedVariants("often", "*/5 * * * *", "hourly", "@hourly", "never", "0 0 31 2 *",
		"zone", "TZ=UTC 0 3 * * 1-5", "nonsense", "every day", "empty", "")...)
}

func imageVariants(_ *node, current any) []variant {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	now, _ := current.(string)
	all := namedVariants("unknown", "testkit.invalid/absent:1", "empty", "")
	if now == "" {
		return markSemantic(append(namedVariants("some", "busybox:1"), all...)...)
	}
	name, _, _ := strings.Cut(now, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	tags := namedVariants("other-tag", name+":testkit", "no-tag", name, "digest", name+"@"+digest)
	return markSemantic(append(tags, all...)...)
}

func durationVariants(n *node, current any) []variant {
	all := append([]variant(nil), durations...)
	if now, ok := current.(string); ok {
		if d, err := time.ParseDuration(now); err == nil {
			all = append(namedVariants("longer", (2*d+time.Second).String()), all...)
		}
	}
	all = markSemantic(all...)
	if len(n.limits.patterns) > 0 {
		all = append(all, n.limits.samples()...)
	}
	return append(all, namedVariants("nonsense", "soon", "empty", "")...)
}

func quantityVariants(n *node, current any) []variant {
	all := namedVariants("gibibyte", "1Gi", "milli", "500m", "zero", "0", "plain", "1", "exponent", "2e3")
	now, ok := current.(string)
	q, err := resource.ParseQuantity(now)
	switch {
	case ok && err != nil: // it is called a size, but is not a quantity
		return n.stringVariants(current)
	case ok:
		all = append(append(namedVariants("double", double(q)), otherNotation(q)...), all...)
	case n.kind() == typeIntOrString:
		all = append(all, variant{kind: "number", value: int64(1)})
	}
	return markSemantic(all...)
}

func double(q resource.Quantity) string {
	q.Add(q)
	return q.String()
}

// otherNotation returns the same quantity in another notation. An operator that compares text sees a change where there is
// none.
func otherNotation(q resource.Quantity) []variant {
	if value, ok := q.AsInt64(); ok && value > 0 {
		plain := resource.NewQuantity(value, resource.DecimalSI).AsDec().String()
		half := resource.NewQuantity((value+1)/2, q.Format).String()
		return namedVariants("same-in-other-notation", plain, "half", half)
	}
	if milli := q.MilliValue(); milli > 0 {
		return namedVariants("same-in-other-notation", q.AsDec().String())
	}
	return nil
}
