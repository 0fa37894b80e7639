package rbac_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

// request is one request and the status code of its response.
type request struct {
	method, path string
	code         int
}

// used sends the requests and returns their usage.
func used(t *testing.T, requests ...request) *rbac.Usage {
	t.Helper()
	usage := &rbac.Usage{}
	for _, r := range requests {
		answer := respondWith(r.code)
		req := httptest.NewRequestWithContext(t.Context(), r.method, "http://server"+r.path, http.NoBody)
		if r.method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/apply-patch+yaml")
		}
		resp, err := usage.Transport(answer).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	return usage
}

type respondWith int

func (a respondWith) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

const policyHead = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: op}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: people}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: op}
rules:
`

func TestUnused(t *testing.T) {
	t.Parallel()
	const pods, deployments = "/api/v1/namespaces/n/pods", "/apis/apps/v1/namespaces/n/deployments"
	tests := map[string]struct {
		reason   string
		rules    string
		requests []request
		want     []string
	}{
		"Used": {
			"each right was needed",
			`[{apiGroups: [""], resources: [pods], verbs: [get, list]}]`,
			[]request{{"GET", pods + "/p", 200}, {"GET", pods, 200}},
			nil,
		},
		"OneVerb": {
			"a rule is as good as each of its verbs",
			`[{apiGroups: [apps], resources: [deployments], verbs: [get, delete]}]`,
			[]request{{"GET", deployments + "/d", 404}},
			[]string{"delete deployments.apps (ClusterRole op) was needed by no request"},
		},
		"Forbidden": {
			"who is not let in did not use a right",
			`[{apiGroups: [""], resources: [pods], verbs: [get]}]`,
			[]request{{"GET", pods + "/p", 403}},
			[]string{"get pods (ClusterRole op) was needed by no request"},
		},
		"Subresource": {
			"it is a resource of its own",
			`[{apiGroups: [apps], resources: [deployments, deployments/status], verbs: [patch]}]`,
			[]request{{"PATCH", deployments + "/d/status", 200}},
			[]string{"patch deployments.apps (ClusterRole op) was needed by no request"},
		},
		"Apply": {
			"an apply that creates takes both rights",
			`[{apiGroups: [""], resources: [pods], verbs: [create, patch]}]`,
			[]request{{"PATCH", pods + "/p", 201}},
			nil,
		},
		"ApplyThatChanges": {
			"and one that does not takes one",
			`[{apiGroups: [""], resources: [pods], verbs: [create, patch]}]`,
			[]request{{"PATCH", pods + "/p", 200}},
			[]string{"create pods (ClusterRole op) was needed by no request"},
		},
		"Stream": {
			"an informer lists by a watch, and by a list where that is not possible",
			`[{apiGroups: [""], resources: [pods], verbs: [list, watch]}]`,
			[]request{{"GET", pods + "?watch=true&sendInitialEvents=true", 200}},
			nil,
		},
		"Names": {
			"the right is for one object",
			`[{apiGroups: [""], resources: [pods], resourceNames: [a], verbs: [get]}]`,
			[]request{{"GET", pods + "/b", 200}},
			[]string{"get pods (ClusterRole op) was needed by no request"},
		},
		"ConflictIsRead": {
			"a conflict makes the sender read the object",
			`[{apiGroups: [""], resources: [pods], verbs: [get, patch, list]}]`,
			[]request{{"PATCH", pods + "/p", 200}},
			[]string{"list pods (ClusterRole op) was needed by no request"},
		},
		"Bind": {
			"a binding grants rights that the sender may lack",
			`[{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles], verbs: [bind, escalate]}]`,
			[]request{{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/b", 200}},
			[]string{
				"bind roles.rbac.authorization.k8s.io (ClusterRole op) was needed by no request",
				"escalate clusterroles.rbac.authorization.k8s.io (ClusterRole op) was needed by no request",
				"escalate roles.rbac.authorization.k8s.io (ClusterRole op) was needed by no request",
			},
		},
		"Escalate": {
			"a role has rights that the sender may lack",
			`[{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate, bind]}]`,
			[]request{{"PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r", 200}},
			[]string{"bind roles.rbac.authorization.k8s.io (ClusterRole op) was needed by no request"},
		},
		"Use": {
			"admission checks it for pods",
			`[{apiGroups: [security.openshift.io], resources: [securitycontextconstraints], verbs: [use]}]`,
			[]request{{"PATCH", deployments + "/d", 200}},
			nil,
		},
		"Path": {
			"what is no resource has a path",
			`[{nonResourceURLs: [/healthz, /metrics], verbs: [get]}]`,
			[]request{{"GET", "/metrics", 200}},
			[]string{"get /healthz (ClusterRole op) was needed by no request"},
		},
		"Wildcards": {
			"its use cannot be determined",
			`[{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}, {apiGroups: [apps], resources: ["*/status"], verbs: [get]}]`,
			[]request{{"GET", pods + "/p", 200}, {"GET", deployments, 200}},
			[]string{
				"* *.* (ClusterRole op) is too wide: of it, requests needed get pods, list deployments.apps",
				"get *.apps/status (ClusterRole op) is too wide, and no request needed any of it",
			},
		},
	}
	for name, tt := range tests {
		policy := parse(t, policyHead+"  "+tt.rules)
		var got []string
		for _, f := range policy.Unused(used(t, tt.requests...)) {
			got = append(got, f.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, because %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}

// A request without a response is used if its context ended, because the operator was stopped. It is not used if the
// connection broke.
func TestRequestWithoutResponse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"Stopped": true, "Broken": false} {
		usage := &rbac.Usage{}
		ctx, cancel := context.WithCancel(t.Context())
		if name == "Stopped" {
			cancel()
		}
		req := httptest.NewRequestWithContext(ctx, http.MethodDelete, "http://server/api/v1/namespaces/x/pods/a", http.NoBody)
		resp, err := usage.Transport(noResponse{}).RoundTrip(req)
		cancel()
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal("the error is lost")
		}
		policy := parse(t, policyHead+`  [{apiGroups: [""], resources: [pods], verbs: [delete]}]`)
		if used := len(policy.Unused(usage)) == 0; used != want {
			t.Errorf("%s: the permission counts as used: %v, want %v", name, used, want)
		}
	}
}

type noResponse struct{}

func (noResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no response")
}

// A binding needs the verb bind on its own role, and a request as another user the verb impersonate.
func TestImpliedByContent(t *testing.T) {
	t.Parallel()
	usage := &rbac.Usage{}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://server/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings",
		strings.NewReader(`{"roleRef":{"kind":"ClusterRole","name":"edit"}}`))
	req.Header.Set("Impersonate-User", "system:serviceaccount:n:robot")
	resp, err := usage.Transport(respondWith(http.StatusCreated)).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	policy := parse(t, policyHead+`  [
    {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [edit], verbs: [bind]},
    {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind]},
    {apiGroups: [""], resources: [serviceaccounts], resourceNames: [robot], verbs: [impersonate]},
    {apiGroups: [""], resources: [users], verbs: [impersonate]}]`)
	var got []string
	for _, f := range policy.Unused(usage) {
		got = append(got, f.Right)
	}
	want := []string{"bind roles.rbac.authorization.k8s.io", "impersonate users"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unused permissions (-want +got):\n%s", diff)
	}
}
