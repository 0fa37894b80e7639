package rbac

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// This file finds the permissions that a request needs, or may need, besides its own. The API server does not tell which of
// them it checked.

// escalating are the kinds whose writes the API server limits to rights that the sender has, unless it has one of the verbs
// bind and escalate.
var escalating = []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}

// workloads are the kinds with pods. Admission plugins check the verb use for pods.
var workloads = []string{
	"pods", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs", "replicationcontrollers",
}

// implied returns the permissions that a request may need besides its own.
func implied(r recorder.Request, header http.Header, roleRef rbacv1.RoleRef) []use {
	all := impersonations(header)
	if r.Resource == "" || r.Subresource != "" || !slices.Contains([]string{"create", "update", "patch", "apply"}, r.Verb) {
		return all
	}
	// A conflict makes the sender read the object, which may happen in no test.
	all = append(all, use{verb: "get", group: r.Group, resource: r.Resource, name: r.Name})
	switch {
	case r.Group == rbacv1.GroupName && slices.Contains(escalating, r.Resource):
		role := strings.TrimSuffix(r.Resource, "bindings") + "s"
		if !strings.HasSuffix(r.Resource, "bindings") {
			return append(all, use{verb: "escalate", group: r.Group, resource: r.Resource, name: r.Name})
		}
		if roleRef.Kind != "" {
			role = strings.ToLower(roleRef.Kind) + "s"
		}
		all = append(all, use{verb: "bind", group: r.Group, resource: role, name: roleRef.Name})
	case slices.Contains(workloads, r.Resource):
		all = append(all, use{verb: "use"})
	}
	return all
}

// impersonations returns the permissions to act as another user.
func impersonations(header http.Header) []use {
	var all []use
	as := func(group, resource, name string) {
		all = append(all, use{verb: "impersonate", group: group, resource: resource, name: name})
	}
	const extra = "Impersonate-Extra-"
	for key, values := range header {
		for _, value := range values {
			switch {
			case key == "Impersonate-User":
				if _, name, err := serviceaccount.SplitUsername(value); err == nil {
					as("", "serviceaccounts", name)
				} else {
					as("", "users", value)
				}
			case key == "Impersonate-Group":
				as("", "groups", value)
			case key == "Impersonate-Uid":
				as("authentication.k8s.io", "uids", value)
			case strings.HasPrefix(key, extra):
				as("authentication.k8s.io", "userextras/"+strings.ToLower(strings.TrimPrefix(key, extra)), value)
			}
		}
	}
	return all
}

// roleRefOf returns the role of a written binding, and the request with a readable body.
func roleRefOf(r recorder.Request, req *http.Request) (rbacv1.RoleRef, *http.Request, error) {
	var binding struct {
		RoleRef rbacv1.RoleRef `json:"roleRef"`
	}
	if r.Group != rbacv1.GroupName || req.Body == nil || !strings.HasSuffix(r.Resource, "bindings") {
		return binding.RoleRef, req, nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close() // it was read
	if err != nil {
		return binding.RoleRef, nil, fmt.Errorf("reading a binding: %w", err)
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	_ = json.Unmarshal(body, &binding) // in another encoding: no role is known
	return binding.RoleRef, req, nil
}
