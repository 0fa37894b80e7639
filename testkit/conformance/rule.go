package conformance

import (
	"context"
	"fmt"
	"slices"
)

// Rule is one requirement on operators.
type Rule struct {
	// Name identifies the rule.
	Name string
	// Doc is the requirement and its reason.
	Doc string
	// Fix is the usual correction of a violation.
	Fix string

	// rendered checks rendered manifests, installed an installation. One of them is nil.
	rendered  func(*Operator, *manifests) []finding
	installed func(context.Context, *installation) ([]finding, error)
}

// finding is one violation of a rule: the object or request, and the mistake.
type finding struct{ location, message string }

// Violation is one violation of a rule.
type Violation struct { //nolint:errname // the error of Check is a list of violations
	// Rule is the name of the rule.
	Rule string
	// Location is the overlay and the object or request.
	Location string
	// Message is the mistake.
	Message string
	// Fix is the usual correction.
	Fix string
}

// Error returns the violation in one line.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s: %s; %s", v.Rule, v.Location, v.Message, v.Fix)
}

// rules are in the order in which an installation is checked: the later rules depend on the state left by earlier ones.
var rules = []Rule{
	{
		Name: "least-privilege",
		Doc: "A role lists what the operator needs: no wildcards, and Secrets only if permitted, or by the names of those " +
			"that the overlay installs.",
		Fix:      "list the API groups, resources and verbs that the operator needs",
		rendered: leastPrivilege,
	},
	{
		Name: "namespaced-scope",
		Doc: "An overlay for some namespaces has permissions in these and in the operator's own namespace only, so that " +
			"users without cluster-wide permissions can install it.",
		Fix:      "replace cluster-wide roles and bindings by those of the watched namespaces",
		rendered: namespacedScope,
	},
	{
		Name:      "idempotent-install",
		Doc:       "Installing twice changes nothing the second time, so that GitOps tools find no drift.",
		Fix:       "write the value that the API server stores",
		installed: idempotentInstall,
	},
	{
		Name:      "warnings",
		Doc:       "The API server has no warning about the manifests.",
		Fix:       "correct the object that the warning names",
		installed: noWarnings,
	},
	{
		Name:      "restricted-pods",
		Doc:       "The operator's namespace enforces the Pod Security level \"restricted\" and admits the operator's pods.",
		Fix:       "set the label pod-security.kubernetes.io/enforce and the security contexts",
		installed: restrictedPods,
	},
	{
		Name:      "reconciles",
		Doc:       "With the permissions of its ServiceAccount the operator reconciles an example.",
		Fix:       "grant the missing permission, or correct the operator",
		installed: reconciles,
	},
	{
		Name:      "idle",
		Doc:       "An operator that has converged sends no request except watches and Lease renewals.",
		Fix:       "read from the cache, write only differences, and do not poll",
		installed: idle,
	},
	{
		Name:      "leader-election",
		Doc:       "Of two replicas one leads and reports it in an event; the other one writes nothing until it takes over.",
		Fix:       "start controllers only in the leader, and grant access to Leases and Events in the operator's namespace",
		installed: leaderElection,
	},
	{
		Name:      "samples",
		Doc:       "The API server accepts the samples.",
		Fix:       "correct the sample or the schema",
		installed: checkSamplesAccepted,
	},
	{
		Name:      "columns",
		Doc:       "kubectl get prints the documented columns.",
		Fix:       "correct additionalPrinterColumns or the expectation",
		installed: columns,
	},
	{
		Name:      "categories",
		Doc:       "kubectl get lists the custom resources by the documented categories.",
		Fix:       "correct spec.names.categories",
		installed: categories,
	},
}

// Rules returns the rules in the order in which they are checked.
func Rules() []Rule { return slices.Clone(rules) }

func isRule(name string) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == name })
}

func (r Rule) violations(overlay Overlay, found []finding) []error {
	var errs []error
	for _, f := range found {
		errs = append(errs, &Violation{
			Rule: r.Name, Location: "overlay " + overlay.Dir + ": " + f.location, Message: f.message, Fix: r.Fix,
		})
	}
	return errs
}
