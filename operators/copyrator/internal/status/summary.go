package status

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Contents has the copied content of each rule. It is safe for concurrent use. The zero value is empty.
type Contents struct {
	mu    sync.Mutex
	known map[types.UID]string
}

// Replace stores the content of a rule and reports whether it differs from a known one.
func (c *Contents) Replace(rule types.UID, content string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.known[rule]
	if c.known == nil {
		c.known = map[types.UID]string{}
	}
	c.known[rule] = content
	return ok && before != content
}

// Remove removes a deleted rule.
func (c *Contents) Remove(rule types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, rule)
}

// summaryMessage replaces messages about copies in other namespaces.
const summaryMessage = "not every copy is as it should be: see status.failures"

// ownReasons are the reasons whose messages are about the rule itself.
func ownReasons() []string {
	return []string{
		"InvalidRule", "SecretsDisabled", "NamespacesNotWatched", "NotAuthorized", ReasonLimit, conditions.ReasonSucceeded,
	}
}

// Summarize removes what the author of a rule may not know from the conditions: messages of the API server and of the SDK
// name objects, owners and quotas of other namespaces. It changes nothing of a trusted rule.
func Summarize(rule *v1.CopyratorRule, trusted bool) {
	if trusted {
		return
	}
	ready := conditions.Get(rule, conditions.Ready)
	keptOut := []string{ReasonConflict, ReasonNotAccepted, "ConfigMapRejected", "SecretRejected"}
	if ready != nil && slices.Contains(keptOut, ready.Reason) {
		conditions.MarkStalled(rule, ReasonNotAccepted, summaryMessage) // the same for all that keeps a copy out
	}
	all := rule.Status.Conditions
	for i := range all {
		switch c := &all[i]; {
		case !slices.Contains([]string{conditions.Ready, conditions.Reconciling, conditions.Stalled, "Contended"}, c.Type):
		case slices.Contains(ownReasons(), c.Reason), c.Message == "":
		default:
			c.Message = summaryMessage
		}
	}
}
