// Package versions converts CopyratorRules between the versions of their API.
package versions

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// Conversion converts CopyratorRules between v1 and v2. No v1 object can make it fail, except by annotations that leave no
// space for the one of the conversion: a value of v1 that is neither a selector nor a list of names, or a large one, has a
// form in v2 that needs no annotation.
var Conversion = &conversion.Kind{
	GroupKind: schema.GroupKind{Group: v2.GroupVersion.Group, Kind: "CopyratorRule"},
	Hub:       v2.GroupVersion.Version,
	Versions: []conversion.Version{
		{Name: v2.GroupVersion.Version, Type: &v2.CopyratorRule{}, ListKeys: listKeys()},
		{
			Name: v1.GroupVersion.Version, Type: &v1.CopyratorRule{}, ListKeys: listKeys(), Lenses: []conversion.Lens{
				conversion.Values("ruleType", "spec.source.kind",
					conversion.Pair{Spoke: "configmap", Hub: v2.KindConfigMap}, conversion.Pair{Spoke: "secret", Hub: v2.KindSecret},
					conversion.Pair{Spoke: "ConfigMap", Hub: v2.KindConfigMap}, conversion.Pair{Spoke: "Secret", Hub: v2.KindSecret}),
				conversion.Split("selector", []string{"spec.source.selector"}, selectorToHub, selectorToSpoke),
				conversion.Join([]string{"namespace", "namespaces"}, "spec.source.namespaces", joinNamespaces, splitNamespaces),
				conversion.Rename("targetNamespaces", "spec.targets.namespaces"),
				conversion.Rename("targetNamespaceSelector", "spec.targets.namespaceSelector"),
				conversion.Rename("excludeNamespaces", "spec.targets.excludeNamespaces"),
				conversion.Rename("conflictPolicy", "spec.conflictPolicy"),
				conversion.Rename("orphanPolicy", "spec.orphanPolicy"),
				conversion.Rename("immutableStrategy", "spec.immutableStrategy"),
				conversion.Rename("dataKeys", "spec.dataKeys"),
				conversion.Rename("labels", "spec.labels"),
				conversion.Rename("suspend", "spec.suspend"),
				conversion.Rename("dryRun", "spec.dryRun"),
			},
		},
	},
}

func listKeys() map[string][]string {
	return map[string][]string{"status.conditions": {"type"}, "status.failures": {"namespace", "name"}}
}

// ToHub returns a rule in v2, without its status.
func ToHub(rule *v1.CopyratorRule) (*v2.CopyratorRule, error) {
	spoke := &v1.CopyratorRule{ObjectMeta: rule.ObjectMeta, Rule: rule.Rule}
	spoke.SetGroupVersionKind(v1.GroupVersion.WithKind(Conversion.GroupKind.Kind))
	spoke.ManagedFields = nil
	u, hub := &unstructured.Unstructured{}, &v2.CopyratorRule{}
	data, err := json.Marshal(spoke)
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the rule: %w", err)
	}
	if u, err = Conversion.Convert(u, v2.GroupVersion.Version); err != nil {
		return nil, err
	}
	if data, err = u.MarshalJSON(); err == nil {
		err = json.Unmarshal(data, hub)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding the rule in %s: %w", v2.GroupVersion.Version, err)
	}
	return hub, nil
}
