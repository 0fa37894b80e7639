package mutants_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// granted lists the permissions of an operator's ClusterRole, such as "create configmaps".
func granted(t *testing.T, m mutants.Mutant) []string {
	t.Helper()
	data, err := fs.ReadFile(mutants.Files, m.RBAC)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, u := range objects {
		if u.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				all = append(all, right(verb, rule.APIGroups[0], rule.Resources[0]))
			}
		}
	}
	slices.Sort(all)
	return all
}

// used lists the permissions that an operator used.
func used(requests []recorder.Request) []string {
	var all []string
	for _, req := range requests {
		resource := req.Resource
		if req.Subresource != "" {
			resource += "/" + req.Subresource
		}
		if resource != "" { // discovery needs no permission
			all = append(all, right(req.Verb, req.Group, resource))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func right(verb, group, resource string) string {
	return strings.TrimSuffix(verb+" "+resource+"."+group, ".")
}
