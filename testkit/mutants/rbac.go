package mutants

import "sigs.k8s.io/controller-runtime/pkg/manager"

// Bugs of an operator's roles: they allow too much or too little. The code is that of the twin.
const (
	noDelete bug = "no-delete"
	noStatus bug = "no-status"
	wildcard bug = "wildcard"
)

func rbacMutants() class {
	return class{
		// The operator has no bug, only its roles. See config/rbac.
		name: "rbac", setup: func(bug) func(manager.Manager) error { return setupWebsites("") },
		account: func(b bug) string {
			if b == "" {
				return "website"
			}
			return "website-" + string(b)
		},
		flaws: []flaw{
			{noDelete, "The role lacks the permission to delete Services, which the operator needs to hide a Website."},
			{noStatus, "The role permits updates of Websites, but not of their status."},
			{wildcard, "The role permits every verb on every resource of the core group. The operator does not need that."},
		},
		steps: websiteSteps(),
	}
}
