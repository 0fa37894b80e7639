package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing/fstest"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// policyFile is the name of the operator's roles in policy.files.
const policyFile = "rbac.json"

// A policy holds the operator's permissions.
type policy struct {
	account string
	files   fstest.MapFS
	// clusterRules holds the rules for all namespaces. unknown reports that one of its ClusterRoles is not in the files.
	clusterRules []rbacv1.PolicyRule
	unknown      bool
}

// readPolicy reads the roles of the operator.
func readPolicy(paths []string, account string) (*policy, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		read, err := scenario.ReadObjects(path)
		if err != nil {
			return nil, firstOf(err)
		}
		objects = append(objects, read...)
	}
	parsed, err := rbac.Parse(objects)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
	}
	p := &policy{}
	if p.account, err = parsed.ServiceAccountName(account); err != nil {
		return nil, fmt.Errorf("%s: %w: name one with --service-account", strings.Join(paths, ", "), err)
	}
	var data []byte
	for _, u := range objects {
		one, err := json.Marshal(u)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		data = append(data, one...)
	}
	p.files = fstest.MapFS{policyFile: {Data: data}}
	return p, p.addClusterRules(objects)
}

// addClusterRules collects the rules for all namespaces.
func (p *policy) addClusterRules(objects []*unstructured.Unstructured) error {
	roles := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.ClusterRoleBinding
	for _, u := range objects {
		var err error
		switch u.GetKind() {
		case "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role)
			roles[role.Name] = role.Rules
		case "ClusterRoleBinding":
			var b rbacv1.ClusterRoleBinding
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b)
			bindings = append(bindings, b)
		}
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	for _, b := range bindings {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == p.account
		}) {
			continue
		}
		rules, known := roles[b.RoleRef.Name]
		p.clusterRules = append(p.clusterRules, rules...)
		p.unknown = p.unknown || !known
	}
	return nil
}

// allowedInAllNamespaces reports whether the operator has a permission in all namespaces at once.
func (p *policy) allowedInAllNamespaces(verb string, resource schema.GroupResource) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return p.unknown || slices.ContainsFunc(p.clusterRules, func(r rbacv1.PolicyRule) bool {
		return has(r.Verbs, verb) && has(r.APIGroups, resource.Group) && has(r.Resources, resource.Resource)
	})
}

// narrowedNote describes the restricted requests and their replacement.
func narrowedNote(resources []string) string {
	if len(resources) == 0 {
		return ""
	}
	return fmt.Sprintf("the operator asks for objects of all namespaces (%s): each run shows it those of its own alone",
		strings.Join(resources, ", "))
}
