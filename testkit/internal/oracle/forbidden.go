package oracle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// forbidden returns the finding of a request that the API server answered with 403: a missing right, unless admission denied
// the request. The API server tells the two apart by its message only.
func forbidden(c intercept.Call) string {
	if isAdmission(c.Message) {
		return fmt.Sprintf("admission denies what the operator sends: %s", c.Request)
	}
	return "the operator's roles lack a right that it uses: " + Rule(c)
}

// The API server's messages about missing rights.
const (
	grantsMore     = "is attempting to grant RBAC permissions not currently held"
	blocksDeletion = "cannot set blockOwnerDeletion"
)

var (
	lacksVerb = regexp.MustCompile(`cannot (\S+) resource "([^"]*)" in API group "([^"]*)"`)
	lacksPath = regexp.MustCompile(`cannot (\S+) path "([^"]*)"`)
)

// isAdmission reports whether the message is that of an admission plugin, a policy or a webhook. A message that was lost, or
// that the API server cut, is not.
func isAdmission(message string) bool {
	return strings.Contains(message, "is forbidden: ") && !lacksVerb.MatchString(message) && !lacksPath.MatchString(message) &&
		!strings.Contains(message, grantsMore) && !strings.Contains(message, blocksDeletion) ||
		strings.HasPrefix(message, "admission webhook ")
}

// Rule returns the RBAC rule that allows the call: the one that the message of a rejection names, or that of the request.
func Rule(c intercept.Call) string {
	resource, verb := c.Resource, c.Verb
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	if verb == "apply" {
		verb = "patch"
	}
	group := c.Group
	switch named := lacksVerb.FindStringSubmatch(c.Message); {
	case named != nil: // an apply that creates needs two rights, and an impersonation another one
		verb, resource, group = named[1], named[2], named[3]
	case strings.Contains(c.Message, grantsMore) && strings.HasSuffix(c.Resource, "bindings"):
		return bindRule(c)
	case strings.Contains(c.Message, grantsMore):
		verb = "escalate"
	case strings.Contains(c.Message, blocksDeletion):
		return `verbs: ["update"], on the subresource finalizers of the owner`
	}
	if path := lacksPath.FindStringSubmatch(c.Message); path != nil {
		return fmt.Sprintf("nonResourceURLs: [%q], verbs: [%q]", path[2], path[1])
	}
	return fmt.Sprintf("apiGroups: [%q], resources: [%q], verbs: [%q]", group, resource, verb)
}

// bindRule returns the rule that allows a binding of a role with rights that the operator does not have.
func bindRule(c intercept.Call) string {
	var binding struct {
		RoleRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"roleRef"`
	}
	_ = json.Unmarshal(c.Sent, &binding) // not an object: no role
	resource, names := "clusterroles", ""
	if binding.RoleRef.Kind == "Role" {
		resource = "roles"
	}
	if binding.RoleRef.Name != "" {
		names = fmt.Sprintf(", resourceNames: [%q]", binding.RoleRef.Name)
	}
	return fmt.Sprintf("apiGroups: [%q], resources: [%q]%s, verbs: [%q]", c.Group, resource, names, "bind")
}
