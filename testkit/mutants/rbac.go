package mutants

import "sigs.k8s.io/controller-runtime/pkg/manager"

// An operator's roles allow what it does, and nothing else. Those of these, which are otherwise their twin, do not.
const (
	noDelete bug = "no-delete"
	noStatus bug = "no-status"
	wildcard bug = "wildcard"
)

func rights() class {
	return class{
		// The operator has no bug, whatever its roles are. See config/rbac.
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
