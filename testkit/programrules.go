package testkit

import "maps"

// ProgramUnusedRules returns entries for [Env.AllowedUnusedRules]: the permissions that the program of an operator needs and
// that no test with [K.Start] uses. They are for serving metrics, for leader election, for repeated events, and for owner
// references to the named resources, such as "myapps.mycompany.com", which the admission plugin
// OwnerReferencesPermissionEnforcement checks. Package conformance exercises leader election.
func ProgramUnusedRules(owners ...string) map[string]string {
	rules := maps.Clone(programUnusedRules)
	for _, owner := range owners {
		rules["update "+owner+"/finalizers"] = "OwnerReferencesPermissionEnforcement requires it; " +
			"the API server of the tests does not enable that plugin"
	}
	return rules
}

var programUnusedRules = map[string]string{ //nolint:gosec // these are no credentials
	"create subjectaccessreviews.authorization.k8s.io": "the metrics server authorizes its clients; no test serves metrics",
	"create tokenreviews.authentication.k8s.io":        "the metrics server authenticates its clients; no test serves metrics",
	"create leases.coordination.k8s.io":                "leader election",
	"get leases.coordination.k8s.io":                   "leader election",
	"update leases.coordination.k8s.io":                "leader election",
	"create events":                                    "leader election records an event",
	"patch events":                                     "an event that repeats within minutes is counted up",
	"patch events.events.k8s.io":                       "an event that repeats within minutes is counted up",
}
