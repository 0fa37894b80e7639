package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// A Usage is the set of permissions that operators have used. It is safe for concurrent use. The zero value is empty.
type Usage struct {
	mu      sync.Mutex
	uses    map[use]bool
	implied map[use]bool // see [implied]
}

// A use is a permission that a request needed.
type use struct {
	verb, group, resource string
	name                  string // of the object
	path                  string // of a request without a resource; the other fields are empty
}

// Transport records the permissions of the requests that pass through it, unless they are denied. It also records those of
// requests without a response because their context ended: at the end of a test, an operator may have a request in progress
// whose effect the test has observed.
func (u *Usage) Transport(next http.RoundTripper) http.RoundTripper { return &userTransport{next, u} }

type userTransport struct {
	next  http.RoundTripper
	usage *Usage
}

// RoundTrip implements http.RoundTripper.
func (t *userTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	described := recorder.ParseRequest(req)
	streamed := req.URL.Query().Has("sendInitialEvents")
	roleRef, req, err := roleRefOf(described, req)
	if err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil && req.Context().Err() != nil {
		t.usage.add(described, streamed)
	}
	if err == nil && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
		described.Code = resp.StatusCode
		t.usage.add(described, streamed)
		t.usage.imply(implied(described, req.Header, roleRef))
	}
	return resp, err
}

func (u *Usage) add(r recorder.Request, streamed bool) {
	if r.Resource == "" {
		u.put(use{verb: r.Verb, path: r.Name})
		return
	}
	one := use{verb: r.Verb, group: r.Group, resource: r.Resource, name: r.Name}
	if r.Subresource != "" {
		one.resource += "/" + r.Subresource
	}
	if one.verb == "apply" {
		one.verb = "patch"
	}
	u.put(one)
	switch {
	case streamed: // such an informer lists if the server does not stream
		one.verb = "list"
		u.put(one)
	// An apply that creates needs both permissions.
	case one.verb != "create" && r.Subresource == "" && r.Code == http.StatusCreated:
		one.verb = "create"
		one.name = ""
		u.put(one)
	}
}

func (u *Usage) put(one use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses == nil {
		u.uses = map[use]bool{}
	}
	u.uses[one] = true
}

func (u *Usage) imply(uses []use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.implied == nil {
		u.implied = map[use]bool{}
	}
	for _, one := range uses {
		u.implied[one] = true
	}
}

// A Finding is a granted permission that was not used, or one with a wildcard.
type Finding struct {
	// Right is the name of the permission, for example "patch deployments.apps/status" or "get /metrics".
	Right string
	// Roles are the granting roles, for example "ClusterRole web-operator".
	Roles []string
	// Wide marks a permission with a wildcard. Used lists the permissions that were used of it.
	Wide bool
	Used []string
}

// String describes the finding in one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s (%s)", f.Right, strings.Join(f.Roles, ", "))
	switch {
	case f.Wide && len(f.Used) == 0:
		s += " is too wide, and no request needed any of it"
	case f.Wide:
		s += " is too wide: of it, requests needed " + strings.Join(f.Used, ", ")
	default:
		s += " was needed by no request"
	}
	return s
}

// Rights returns the names of all permissions that the policy grants to ServiceAccounts by its own roles.
func (p *Policy) Rights() []string {
	var all []string
	for _, g := range p.grants() {
		all = append(all, g.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Unused returns the permissions granted to ServiceAccounts but not used, ordered by name.
func (p *Policy) Unused(u *Usage) []Finding {
	u.mu.Lock()
	uses, mayNeed := slices.Collect(maps.Keys(u.uses)), slices.Collect(maps.Keys(u.implied))
	u.mu.Unlock()
	found := map[string]*Finding{}
	for _, g := range p.grants() {
		var used []string
		for _, one := range uses {
			if g.covers(one) {
				used = append(used, one.String())
			}
		}
		if !g.wide() && (len(used) > 0 || slices.ContainsFunc(mayNeed, g.mayCover)) {
			continue
		}
		f := found[g.String()]
		if f == nil {
			slices.Sort(used)
			f = &Finding{Right: g.String(), Wide: g.wide(), Used: slices.Compact(used)}
			found[f.Right] = f
		}
		if !slices.Contains(f.Roles, g.role) {
			f.Roles = append(f.Roles, g.role)
		}
	}
	all := make([]Finding, 0, len(found))
	for _, f := range found {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Compare(a.Right, b.Right) })
	return all
}

// A grant is one verb on one resource, or on one path.
type grant struct {
	use

	names []string // of the objects; empty for all
	role  string
}

// grants splits the rules bound to ServiceAccounts. It ignores roles that are not in the files.
func (p *Policy) grants() []grant {
	var all []grant
	for _, b := range p.bindings {
		rules, known := p.rules(b.role)
		if !known || len(b.accounts) == 0 {
			continue
		}
		role := b.role.Kind + " " + b.role.Name
		for _, rule := range rules {
			all = append(all, grantsOf(rule, role)...)
		}
	}
	return all
}

func grantsOf(rule rbacv1.PolicyRule, role string) []grant {
	var all []grant
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			all = append(all, grant{use: use{verb: verb, path: path}, role: role})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				one := use{verb: verb, group: group, resource: resource}
				all = append(all, grant{use: one, names: rule.ResourceNames, role: role})
			}
		}
	}
	return all
}

func (g grant) wide() bool {
	return strings.Contains(g.verb+g.group+g.resource, rbacv1.VerbAll) || strings.Contains(g.path, "*")
}

// covers reports whether the grant permits the use, by the rules of the API server.
func (g grant) covers(one use) bool {
	switch {
	case g.verb != one.verb && g.verb != rbacv1.VerbAll:
		return false
	case g.path != "" || one.path != "":
		prefix, wild := strings.CutSuffix(g.path, "*")
		return g.path != "" && (g.path == one.path || wild && strings.HasPrefix(one.path, prefix))
	case g.group != one.group && g.group != rbacv1.APIGroupAll:
		return false
	case len(g.names) > 0 && !slices.Contains(g.names, one.name):
		return false
	}
	_, sub, _ := strings.Cut(one.resource, "/")
	return g.resource == one.resource || g.resource == rbacv1.ResourceAll || sub != "" && g.resource == "*/"+sub
}

// mayCover reports whether the grant permits an implied use. An unknown name, or resource of the verb use, may be any.
func (g grant) mayCover(one use) bool {
	if one.verb == "use" {
		return g.verb == one.verb
	}
	if one.name == "" {
		g.names = nil
	}
	return g.covers(one)
}

// String returns the use in the form "patch deployments.apps/status".
func (u use) String() string {
	if u.path != "" {
		return u.verb + " " + u.path
	}
	resource, sub, _ := strings.Cut(u.resource, "/")
	name := resource
	if u.group != "" {
		name += "." + u.group
	}
	if sub != "" {
		name += "/" + sub
	}
	return u.verb + " " + name
}
