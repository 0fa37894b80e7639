package oracle_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// The finding of a rejected request names the right that is missing, and a denial of admission is none.
func TestForbiddenNamesTheRight(t *testing.T) {
	t.Parallel()
	const lacks = "the operator's roles lack a right that it uses: "
	binding := recorder.Request{
		Verb: "apply", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: "n", Name: "b", Code: 403,
	}
	pod := recorder.Request{Verb: "apply", Resource: "pods", Namespace: "n", Name: "p", Code: 403}
	for name, tt := range map[string]struct {
		request             recorder.Request
		sent, message, want string
	}{
		"Request": {pod, "", "", lacks + `apiGroups: [""], resources: ["pods"], verbs: ["patch"]`},
		"Creates": {
			pod, "", `pods "p" is forbidden: User "op" cannot create resource "pods" in API group "" in the namespace "n"`,
			lacks + `apiGroups: [""], resources: ["pods"], verbs: ["create"]`,
		},
		"Binds": {
			binding, `{"roleRef":{"kind":"ClusterRole","name":"edit"}}`,
			`rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "op" (groups=["g"]) ` +
				"is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"]}",
			lacks + `apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterroles"], resourceNames: ["edit"], verbs: ["bind"]`,
		},
		"Escalates": {
			recorder.Request{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "roles", Code: 403},
			"",
			`roles "r" is forbidden: user "op" (groups=["g"]) is attempting to grant RBAC permissions not currently held:`,
			lacks + `apiGroups: ["rbac.authorization.k8s.io"], resources: ["roles"], verbs: ["escalate"]`,
		},
		"Impersonates": {
			pod, "", `users "u" is forbidden: User "op" cannot impersonate resource "users" in API group "" at the cluster scope`,
			lacks + `apiGroups: [""], resources: ["users"], verbs: ["impersonate"]`,
		},
		"Path": {
			recorder.Request{Verb: "get", Name: "/metrics", Code: 403},
			"", `forbidden: User "op" cannot get path "/metrics"`,
			lacks + `nonResourceURLs: ["/metrics"], verbs: ["get"]`,
		},
		"Quota": {
			pod, "", `pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`,
			"admission denies what the operator sends: apply pods n/p -> 403",
		},
		"Webhook": {
			pod, "", `admission webhook "w" denied the request: no`,
			"admission denies what the operator sends: apply pods n/p -> 403",
		},
	} {
		call := intercept.Call{Request: tt.request, Reached: true, Sent: []byte(tt.sent), Message: tt.message}
		found := oracle.Calls([]intercept.Call{call})
		if len(found) != 1 || found[0].Message != tt.want || found[0].Oracle != oracle.Forbidden {
			t.Errorf("%s: found %+v, want %q", name, found, tt.want)
		}
	}
}
