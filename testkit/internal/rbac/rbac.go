// Package rbac scopes the roles that an operator ships to one test's namespace. The operator has its real permissions
// there and none elsewhere.
//
// A ClusterRoleBinding becomes a RoleBinding in the namespace plus, for the cluster-wide kinds among its rules, a
// ClusterRoleBinding that the namespace owns.
package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Policy holds the permissions in the shipped files. It ignores their namespaces: a test has its own.
type Policy struct {
	accounts     []string
	roles        map[string][]rbacv1.PolicyRule
	clusterRoles map[string][]rbacv1.PolicyRule
	bindings     []binding
}

type binding struct {
	name        string
	clusterWide bool
	accounts    []string
	role        rbacv1.RoleRef
}

// Parse reads a policy. Objects of other kinds are ignored.
func Parse(objects []*unstructured.Unstructured) (*Policy, error) {
	p := &Policy{roles: map[string][]rbacv1.PolicyRule{}, clusterRoles: map[string][]rbacv1.PolicyRule{}}
	for _, u := range objects {
		if err := p.add(u); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	slices.Sort(p.accounts)
	p.accounts = slices.Compact(p.accounts)
	return p, nil
}

func (p *Policy) add(u *unstructured.Unstructured) error {
	into := func(target any) error {
		return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, target, true)
	}
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "ServiceAccount"}:
		p.accounts = append(p.accounts, u.GetName())
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "Role"}:
		var role rbacv1.Role
		if err := into(&role); err != nil {
			return err
		}
		p.roles[role.Name] = role.Rules
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "ClusterRole"}:
		var role rbacv1.ClusterRole
		if err := into(&role); err != nil {
			return err
		}
		p.clusterRoles[role.Name] = role.Rules
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "RoleBinding"}:
		var b rbacv1.RoleBinding
		if err := into(&b); err != nil {
			return err
		}
		p.bind(b.Name, false, b.Subjects, b.RoleRef)
	case schema.GroupKind{Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}:
		var b rbacv1.ClusterRoleBinding
		if err := into(&b); err != nil {
			return err
		}
		p.bind(b.Name, true, b.Subjects, b.RoleRef)
	}
	return nil
}

func (p *Policy) bind(name string, clusterWide bool, subjects []rbacv1.Subject, role rbacv1.RoleRef) {
	b := binding{name: name, clusterWide: clusterWide, role: role}
	for _, subject := range subjects {
		if subject.Kind == rbacv1.ServiceAccountKind {
			b.accounts = append(b.accounts, subject.Name)
			p.accounts = append(p.accounts, subject.Name)
		}
	}
	p.bindings = append(p.bindings, b)
}

// ServiceAccountName returns the name of the only ServiceAccount of the policy, or name if it is one of several.
func (p *Policy) ServiceAccountName(name string) (string, error) {
	switch {
	case name == "" && len(p.accounts) == 1:
		return p.accounts[0], nil
	case name != "" && slices.Contains(p.accounts, name):
		return name, nil
	case len(p.accounts) == 0:
		return "", errors.New("finding the operator's ServiceAccount: the files have none")
	default:
		return "", fmt.Errorf("finding ServiceAccount %q: the files have %s", name, strings.Join(p.accounts, ", "))
	}
}

// Objects returns the objects that grant the account its permissions in the namespace: its ServiceAccount first,
// bindings after their roles. The namespace owns cluster-wide objects. With clusterWide the account gets its
// permissions for the whole cluster.
func (p *Policy) Objects(
	account string, namespace *corev1.Namespace, mapper meta.RESTMapper, clusterWide bool,
) ([]client.Object, error) {
	s := &scoped{account: account, namespace: namespace}
	s.add(&corev1.ServiceAccount{ObjectMeta: s.meta(account)})
	for _, b := range p.bindings {
		if !slices.Contains(b.accounts, account) {
			continue
		}
		rules, known := p.rules(b.role)
		switch {
		case !known && b.role.Kind == "ClusterRole":
			s.refer(b, clusterWide)
		case !known:
			return nil, fmt.Errorf("resolving %s: the files have no %s %s", b.name, b.role.Kind, b.role.Name)
		case b.clusterWide && clusterWide:
			s.grantEverywhere(b, rules)
		case b.clusterWide:
			within, everywhere := split(rules, mapper)
			s.grant(b, within)
			s.grantEverywhere(b, everywhere)
		default:
			s.grant(b, rules)
		}
	}
	return s.objects, nil
}

func (p *Policy) rules(ref rbacv1.RoleRef) (rules []rbacv1.PolicyRule, known bool) {
	if ref.Kind == "ClusterRole" {
		rules, known = p.clusterRoles[ref.Name]
	} else {
		rules, known = p.roles[ref.Name]
	}
	return rules, known
}

// scoped collects the objects for one namespace.
type scoped struct {
	account   string
	namespace *corev1.Namespace
	objects   []client.Object
}

func (s *scoped) add(objects ...client.Object) { s.objects = append(s.objects, objects...) }

func (s *scoped) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace.Name, Name: name}
}

// clusterMeta makes names unique across tests and makes the namespace the owner, for garbage collection.
func (s *scoped) clusterMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: s.namespace.Name + "-" + name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Namespace", Name: s.namespace.Name, UID: s.namespace.UID,
		}},
	}
}

func (s *scoped) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace.Name, Name: s.account}}
}

func (s *scoped) grant(b binding, rules []rbacv1.PolicyRule) {
	if len(rules) == 0 {
		return
	}
	s.add(
		&rbacv1.Role{ObjectMeta: s.meta(b.name), Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: s.meta(b.name), Subjects: s.subjects(), RoleRef: roleRef("Role", b.name)},
	)
}

func (s *scoped) grantEverywhere(b binding, rules []rbacv1.PolicyRule) {
	if len(rules) == 0 {
		return
	}
	meta := s.clusterMeta(b.name)
	s.add(
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: s.subjects(), RoleRef: roleRef("ClusterRole", meta.Name),
		},
	)
}

// refer binds a ClusterRole that is not in the files, such as the built-in "view".
func (s *scoped) refer(b binding, clusterWide bool) {
	if b.clusterWide && clusterWide {
		s.add(&rbacv1.ClusterRoleBinding{ObjectMeta: s.clusterMeta(b.name), Subjects: s.subjects(), RoleRef: b.role})
		return
	}
	s.add(&rbacv1.RoleBinding{ObjectMeta: s.meta(b.name), Subjects: s.subjects(), RoleRef: b.role})
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// split separates rules on namespaced kinds from those on cluster-wide kinds and URLs. Wildcards and unknown kinds
// count as namespaced: cluster-wide permissions need explicit names.
func split(rules []rbacv1.PolicyRule, mapper meta.RESTMapper) (within, everywhere []rbacv1.PolicyRule) {
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			everywhere = append(everywhere, rule)
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				one := *rule.DeepCopy()
				one.APIGroups = []string{group}
				one.Resources = []string{resource}
				if clusterScoped(group, resource, mapper) {
					everywhere = append(everywhere, one)
				} else {
					within = append(within, one)
				}
			}
		}
	}
	return within, everywhere
}

func clusterScoped(group, resource string, mapper meta.RESTMapper) bool {
	resource, _, _ = strings.Cut(resource, "/")
	gvk, err := mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
	if err != nil {
		return false
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot
}
