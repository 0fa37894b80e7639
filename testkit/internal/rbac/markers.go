package rbac

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Marked returns the names of the permissions in the markers +kubebuilder:rbac of a Go file, sorted.
func Marked(source []byte) []string {
	rights := map[string]bool{}
	for line := range bytes.Lines(source) {
		marker, found := strings.CutPrefix(strings.TrimSpace(string(line)), "// +kubebuilder:rbac:")
		if !found {
			continue
		}
		values := map[string][]string{}
		for argument := range strings.SplitSeq(marker, ",") {
			name, value, _ := strings.Cut(argument, "=")
			for one := range strings.SplitSeq(value, ";") {
				values[name] = append(values[name], strings.Trim(one, `"`))
			}
		}
		rule := rbacv1.PolicyRule{
			APIGroups: values["groups"], Resources: values["resources"], Verbs: values["verbs"], NonResourceURLs: values["urls"],
		}
		for _, g := range grantsOf(rule, "") {
			rights[g.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(rights))
}
