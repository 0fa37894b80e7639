package mutants

import "sigs.k8s.io/controller-runtime/pkg/manager"

// Bugs of an operator's roles: they allow too much or too little. The code is that of the twin.
const (
	noDelete bug = "no-delete"
	noStatus bug = "no-status"
	wildcard bug = "wildcard"
)

func rbac() class {
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
			{noDelete, "It may not delete Services, which it does when a Website is hidden."},
			{noStatus, "It may update Websites, and not their status."},
			{wildcard, "It may do everything with everything of Kubernetes's core, which it does not need."},
		},
		steps: websiteSteps(),
	}
}
