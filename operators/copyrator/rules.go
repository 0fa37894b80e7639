package copyrator

import (
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// ruleCache holds parsed rules, so that a pass of one rule does not parse all others. It is safe for concurrent use.
type ruleCache struct {
	settings *policy.Settings

	mu    sync.Mutex
	rules map[types.UID]*parsedRule
}

// parsedRule is the result of parsing one generation of a rule. A client of v1 can change the kept values of v2 without a
// new generation.
type parsedRule struct {
	generation int64
	kept       string
	rule       *policy.Rule
	err        error
}

// parse converts a rule to the hub of its versions, and parses it.
func (c *ruleCache) parse(o *v1.CopyratorRule) (*policy.Rule, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.rules[o.UID]
	kept := o.Annotations[conversion.Annotation]
	if !ok || known.generation != o.Generation || known.kept != kept || o.Generation == 0 {
		known = &parsedRule{generation: o.Generation, kept: kept}
		hub, err := versions.ToHub(o)
		if err == nil {
			known.rule, err = policy.Parse(hub, c.settings)
		}
		known.err = err
		c.rules[o.UID] = known
	}
	return known.rule, known.err
}

// retain drops the rules that are not among these. The pass of a rule that is missing in its own list parses it again.
func (c *ruleCache) retain(all []*v1.CopyratorRule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rules) <= 2*len(all)+1 {
		return
	}
	kept := map[types.UID]*parsedRule{}
	for _, o := range all {
		if known, ok := c.rules[o.UID]; ok {
			kept[o.UID] = known
		}
	}
	c.rules = kept
}

// peer is another valid rule of this instance.
type peer struct {
	*policy.Rule

	object *v1.CopyratorRule
}

// peers are the rules that affect a pass.
type peers struct {
	// trusted are the other rules in the operator's namespace for the same kind of objects, active or not.
	trusted []peer
	// older are the older rules in the namespace of a rule that has limits, for all kinds.
	older []peer
}

// peers returns the rules that affect this one.
func (c *copyrator) peers(p *pass, rule *policy.Rule) (peers, error) {
	in := p.Namespaces
	if len(in) == 0 {
		in = []string{metav1.NamespaceAll}
	}
	var all []*v1.CopyratorRule
	for _, namespace := range in {
		found, err := sdk.Find(p, &v1.CopyratorRule{}, client.InNamespace(namespace))
		if err != nil {
			return peers{}, err
		}
		all = append(all, found...)
	}
	c.rules.retain(all)
	var result peers
	for _, o := range all {
		if o.UID == p.Object.UID || o.Namespace != c.Namespace && o.Namespace != rule.Namespace {
			continue
		}
		r, err := c.rules.parse(o)
		switch {
		case err != nil:
		case r.Trusted() && r.Kind == rule.Kind:
			result.trusted = append(result.trusted, peer{r, o})
		case !r.Trusted() && r.IsOlder(rule) && c.selects(client.ObjectKeyFromObject(o)):
			result.older = append(result.older, peer{r, o})
		}
	}
	return result, nil
}

// preceding returns the rules that have precedence over this one, with their sources. A source namespace that cannot be read
// reserves nothing: it must not stop the rules of others.
func (c *copyrator) preceding(
	p *pass, rule *policy.Rule, trusted []peer, n *policy.Namespaces,
) ([]policy.RuleSources, error) {
	var all []policy.RuleSources
	for _, other := range trusted {
		if !c.isActive(other.object) || !other.Before(rule) || c.reject(p, other.Rule) != nil {
			continue
		}
		found, err := c.findSources(p, other.Rule, n)
		if errors.Is(err, sdk.ErrNotSynced) {
			return nil, err
		}
		all = append(all, found.RuleSources)
	}
	return all, nil
}

// isActive reports whether a rule makes copies now. The existing copies of a suspended rule keep their places; places
// without a copy are not reserved for it.
func (c *copyrator) isActive(rule *v1.CopyratorRule) bool {
	return c.selects(client.ObjectKeyFromObject(rule)) && !rule.Suspend && !rule.DryRun && rule.DeletionTimestamp == nil &&
		rule.Annotations[sdk.PausedAnnotation] != "true" && rule.Annotations[sdk.DryRunAnnotation] != "true"
}
