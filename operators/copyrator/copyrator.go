// Package copyrator reconciles CopyratorRules: it keeps copies of ConfigMaps and Secrets in other namespaces.
//
// This file is the whole operator. Package internal/policy evaluates rules, package internal/desired builds copies, package
// internal/status writes the status, and the SDK sends the requests.
package copyrator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/status"
	"github.com/homeostat-dev/homeostat/sdk"
)

// name is the operator's name, the field manager of every copy and the value of its managed-by label.
const name = "copyrator"

type pass = status.Pass

// New returns the operator with these options.
func New(o Options) *sdk.Operator[*v1.CopyratorRule] {
	c := &copyrator{
		Options: o, limits: *cmp.Or(o.Limits, &policy.DefaultLimits),
		rules: ruleCache{settings: o.settings(), rules: map[types.UID]*parsedRule{}},
	}
	owns := []client.Object{sdk.ExclusiveMaps(sdk.MetadataOnly(&corev1.ConfigMap{}), "data", "binaryData")}
	if o.Secrets {
		owns = append(owns, sdk.ExclusiveMaps(sdk.MetadataOnly(&corev1.Secret{}), "data"))
	}
	return &sdk.Operator[*v1.CopyratorRule]{
		Name:        name,
		AddToScheme: v1.AddToScheme,
		Owns:        owns,
		Reconcile:   c.reconcile,
		Finalize:    c.finalize,
		Selects:     c.selects,
		// Messages of the API server about other namespaces are not for the author of a tenant's rule.
		Summarize: func(rule *v1.CopyratorRule) { status.Summarize(rule, rule.Namespace == o.Namespace) },
		// The deletion of a suspended rule must not wait until the rule is resumed.
		Paused: func(rule *v1.CopyratorRule) bool { return rule.Suspend && rule.DeletionTimestamp == nil },
		DryRun: func(rule *v1.CopyratorRule) bool { return rule.DryRun && rule.DeletionTimestamp == nil },
		// An object that a rule has taken over was there before the rule, and remains after it.
		Orphan: func(child client.Object) bool { return policy.Release(child, name) },
	}
}

type copyrator struct {
	Options

	limits   policy.Limits
	rules    ruleCache
	sizes    sizes
	contents status.Contents
}

func (c *copyrator) selects(rule types.NamespacedName) bool {
	ok, _ := path.Match(cmp.Or(c.RuleName, "*"), rule.Name) // the pattern is valid
	return ok
}

func (c *copyrator) reconcile(ctx context.Context, p *pass) error {
	rule, err := c.parse(p)
	if err != nil {
		return err
	}
	namespaces, err := namespaces(p)
	if err != nil {
		return err
	}
	found, err := c.findSources(p, rule, namespaces)
	if err != nil {
		return err
	}
	peers, err := c.peers(p, rule)
	if err != nil {
		return err
	}
	preceding, err := c.preceding(p, rule, peers.trusted, namespaces)
	if err != nil {
		return err
	}
	r := status.Report{
		Rule: rule, Sources: len(found.Sources), Unreadable: found.unreadable, Contents: &c.contents,
		Namespaces: int32(rule.CountTargets(namespaces)), //nolint:gosec // etcd cannot hold that many
		Stored:     func(before *v1.CopyratorRuleStatus) { gauges.record(before, p.Object) },
	}
	all, err := c.openSources(ctx, p, rule, peers.trusted, &found.RuleSources, &r)
	if err != nil {
		return err
	}
	r.Placement = found.Place(namespaces, preceding)
	if !rule.Trusted() {
		if err := c.limit(ctx, p, peers.older, namespaces, all, &r); err != nil {
			return err
		}
	}
	if rule.Spec.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	c.apply(p, all, &r)
	r.Write(p)
	return nil
}

// parse parses the rule and checks its permissions.
func (c *copyrator) parse(p *pass) (*policy.Rule, error) {
	rule, err := c.rules.parse(p.Object)
	if err != nil {
		return nil, sdk.Invalid("InvalidRule", "%v", err)
	}
	if overwriteDenied(rule) {
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "ConflictPolicyNotAllowed",
			"only rules in namespace %s may write over what is there", c.Namespace)
	}
	return rule, c.reject(p, rule)
}

// reject returns an error for a valid rule that must have no copies, otherwise nil.
func (c *copyrator) reject(p *pass, rule *policy.Rule) error {
	switch {
	case rule.Kind == "Secret" && !c.Secrets:
		return sdk.Invalid("SecretsDisabled", "this Copyrator copies no Secrets: run it with --secrets and the rights")
	case rule.NeedsLabels() && len(p.Namespaces) > 0:
		return sdk.Invalid("NamespacesNotWatched",
			"spec.targets.namespaceSelector or, in v1, targetNamespaceSelector needs the labels of namespaces, which this "+
				"Copyrator may not read: name the target namespaces")
	case overwriteDenied(rule):
		return sdk.Invalid("NotAuthorized", "conflictPolicy %s is for rules in namespace %s: set it to Skip",
			rule.Spec.ConflictPolicy, c.Namespace)
	default:
		return nil
	}
}

// overwriteDenied reports whether a rule asks to overwrite existing objects without the permission to do so.
func overwriteDenied(rule *policy.Rule) bool {
	return !rule.Trusted() && rule.Spec.ConflictPolicy != v1.ConflictSkip && rule.Spec.ConflictPolicy != ""
}

// limit leaves out the copies beyond the limits.
func (c *copyrator) limit(
	ctx context.Context, p *pass, older []peer, n *policy.Namespaces, all map[types.UID]*source, r *status.Report,
) error {
	allowed, err := c.allowance(ctx, p, older, n)
	if err != nil {
		return err
	}
	var limited string
	r.Copies, limited = allowed.Limit(r.Copies, func(o *metav1.PartialObjectMetadata) int64 { return all[o.UID].digest.Size })
	r.Limited = cmp.Or(r.Limited, limited)
	return nil
}

// apply records the copies, grouped by source.
func (c *copyrator) apply(p *pass, all map[types.UID]*source, r *status.Report) {
	places, content := sha256.New(), sha256.New()
	for _, copied := range r.Copies {
		s := all[copied.Source.UID]
		fmt.Fprintln(places, s.meta.UID, s.meta.Namespace, s.meta.Name, copied.Namespace)
		fmt.Fprintln(content, s.digest.Sum)
		s.apply(p, copied.Namespace)
	}
	r.Digest = hex.EncodeToString(places.Sum(nil)[:8])
	r.Content = string(content.Sum(nil))
}

// finalize orphans the copies if the rule asks for that. Otherwise the SDK deletes them.
func (c *copyrator) finalize(_ context.Context, p *pass) error {
	if p.Object.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	gauges.remove(p.Object.UID)
	c.contents.Remove(p.Object.UID)
	return nil
}
