package conformance

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	rule := func(resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	for name, tc := range map[string]struct {
		rule    rbacv1.PolicyRule
		kind    string
		secrets bool
		want    string
	}{
		"listed":                 {rule("pods", "get"), "ClusterRole", false, ""},
		"verb wildcard":          {rule("pods", "*"), "ClusterRole", false, "wildcard"},
		"resource wildcard":      {rule("*", "get"), "Role", false, "wildcard"},
		"URL wildcard":           {rbacv1.PolicyRule{NonResourceURLs: []string{"*"}}, "ClusterRole", false, "wildcard"},
		"Secrets":                {rule("secrets", "get"), "Role", false, "AllowSecrets"},
		"permitted Secrets":      {rule("secrets", "get"), "Role", true, ""},
		"namespaces in a Role":   {rule("namespaces", "list"), "Role", false, "cluster-scoped"},
		"namespaces everywhere":  {rule("namespaces", "list"), "ClusterRole", false, ""},
		"wildcard beats Secrets": {rule("secrets", "*"), "Role", true, "wildcard"},
	} {
		got := mistakeOf(tc.rule, tc.kind, tc.secrets)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Each rule explains itself, and has one check.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || r.Doc == "" || r.Fix == "" || (r.rendered == nil) == (r.installed == nil) || names[r.Name] {
			t.Errorf("rule %q is incomplete", r.Name)
		}
		names[r.Name] = true
	}
}
