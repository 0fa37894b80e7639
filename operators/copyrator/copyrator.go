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
	"slices"

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
	c := &copyrator{Options: o, settings: policy.Settings{
		Namespace: o.Namespace, Exclude: o.ExcludeNamespaces, AllowSources: o.AllowSourceNamespaces, Consent: o.Consent,
		ManagedBy: name,
	}}
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
		// The deletion of a suspended rule must not wait until the rule is resumed.
		Paused: func(rule *v1.CopyratorRule) bool { return rule.Suspend && rule.DeletionTimestamp == nil },
		DryRun: func(rule *v1.CopyratorRule) bool { return rule.DryRun && rule.DeletionTimestamp == nil },
	}
}

type copyrator struct {
	Options

	settings policy.Settings
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
	found, unreadable, err := c.findSources(p, rule, namespaces)
	if err != nil {
		return err
	}
	peers, err := c.peers(p, rule)
	if err != nil {
		return err
	}
	precedingRules, err := c.precedingRules(p, rule, peers, namespaces)
	if err != nil {
		return err
	}
	copies, shadowed := found.Copies(namespaces, precedingRules)
	if p.Object.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	r := status.Report{
		Rule: rule, Sources: len(found.Sources), Shadowed: shadowed, Unreadable: unreadable,
		Stored: func(before string) { gauges.record(before, p.Object) },
	}
	for _, n := range namespaces {
		if rule.Reaches(n) {
			r.Namespaces++
		}
	}
	if err := c.apply(ctx, p, rule, peers, copies, &r); err != nil {
		return err
	}
	r.Write(p)
	return nil
}

// parse parses the rule and checks its permissions.
func (c *copyrator) parse(p *pass) (*policy.Rule, error) {
	rule, err := policy.Parse(p.Object, c.settings)
	if err != nil {
		return nil, sdk.Invalid("InvalidRule", "%v", err)
	}
	if c.overwriteDenied(rule, p.Object) {
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "ConflictPolicyNotAllowed",
			"only rules in namespace %s may write over what is there", c.Namespace)
	}
	return rule, c.reject(p, rule, p.Object)
}

// reject returns an error for a valid rule that must have no copies, otherwise nil.
func (c *copyrator) reject(p *pass, rule *policy.Rule, o *v1.CopyratorRule) error {
	switch {
	case rule.Kind == "Secret" && !c.Secrets:
		return sdk.Invalid("SecretsDisabled", "this Copyrator copies no Secrets: run it with --secrets and the rights")
	case rule.NeedsLabels() && len(p.Namespaces) > 0:
		return sdk.Invalid("NamespacesNotWatched",
			"targetNamespaceSelector needs the labels of namespaces, which this Copyrator may not read: name targetNamespaces")
	case c.overwriteDenied(rule, o):
		return sdk.Invalid("NotAuthorized", "conflictPolicy %s is for rules in namespace %s: set it to Skip",
			o.ConflictPolicy, c.Namespace)
	default:
		return nil
	}
}

// overwriteDenied reports whether a rule asks to overwrite existing objects without the permission to do so.
func (c *copyrator) overwriteDenied(rule *policy.Rule, o *v1.CopyratorRule) bool {
	return !rule.Trusted() && o.ConflictPolicy != v1.ConflictSkip && o.ConflictPolicy != ""
}

// namespaces returns the metadata of all namespaces. If the operator is restricted to some namespaces, only their names
// are known.
func namespaces(p *pass) ([]*metav1.PartialObjectMetadata, error) {
	if len(p.Namespaces) == 0 {
		return sdk.Find(p, metadataOf("Namespace"))
	}
	var all []*metav1.PartialObjectMetadata
	for _, name := range slices.Sorted(slices.Values(p.Namespaces)) {
		n := metadataOf("Namespace")
		n.Name = name
		all = append(all, n)
	}
	return all, nil
}

// metadataOf returns an empty metadata object of a kind in the core group.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// findSources returns the sources of a rule, and the named namespaces that it must not read. The second result does not
// depend on the content of those namespaces, so that it discloses nothing.
func (c *copyrator) findSources(
	p *pass, rule *policy.Rule, namespaces []*metav1.PartialObjectMetadata,
) (found policy.RuleSources, unreadable []string, err error) {
	found.Rule = rule
	for _, name := range rule.Sources {
		i := slices.IndexFunc(namespaces, func(n *metav1.PartialObjectMetadata) bool { return n.Name == name })
		if i < 0 && rule.MayRead(name, nil) && len(p.Namespaces) == 0 {
			continue // the namespace may be created later
		}
		if i < 0 {
			unreadable = append(unreadable, name)
			continue
		}
		all, err := sdk.Find(p, metadataOf(rule.Kind), client.InNamespace(name),
			client.MatchingLabelsSelector{Selector: rule.Selector})
		if err != nil {
			return found, nil, err
		}
		whole, granted := rule.MayRead(name, namespaces[i].Annotations), false
		for _, o := range all {
			copied := o.DeletionTimestamp == nil && o.Name != rootCertificates && !policy.IsCopy(o)
			if copied && (whole || rule.Granted(o.Annotations)) {
				found.Sources = append(found.Sources, o)
				granted = true
			}
		}
		if !whole && !granted {
			unreadable = append(unreadable, name)
		}
	}
	return found, unreadable, nil
}

// rootCertificates is the ConfigMap that Kubernetes creates in every namespace.
const rootCertificates = "kube-root-ca.crt"

// peer is another valid rule for the same kind of objects.
type peer struct {
	*policy.Rule

	object *v1.CopyratorRule
}

// peers returns the other rules for the same kind of objects, active or not.
func (c *copyrator) peers(p *pass, rule *policy.Rule) ([]peer, error) {
	in := p.Namespaces
	if len(in) == 0 {
		in = []string{metav1.NamespaceAll}
	}
	var all []peer
	for _, namespace := range in {
		found, err := sdk.Find(p, &v1.CopyratorRule{}, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if r, err := policy.Parse(o, c.settings); err == nil && r.Kind == rule.Kind && o.UID != p.Object.UID {
				all = append(all, peer{r, o})
			}
		}
	}
	return all, nil
}

// precedingRules returns the rules that have precedence over this one in some namespace, with their sources.
func (c *copyrator) precedingRules(
	p *pass, rule *policy.Rule, peers []peer, namespaces []*metav1.PartialObjectMetadata,
) ([]policy.RuleSources, error) {
	var all []policy.RuleSources
	for _, other := range peers {
		if !c.isActive(other.object) || !other.MayComeBefore(rule) || c.reject(p, other.Rule, other.object) != nil {
			continue
		}
		found, _, err := c.findSources(p, other.Rule, namespaces)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// isActive reports whether a rule makes copies now. The existing copies of a suspended rule keep their places; places
// without a copy are not reserved for it.
func (c *copyrator) isActive(rule *v1.CopyratorRule) bool {
	return c.selects(client.ObjectKeyFromObject(rule)) && !rule.Suspend && !rule.DryRun && rule.DeletionTimestamp == nil &&
		rule.Annotations[sdk.PausedAnnotation] != "true" && rule.Annotations[sdk.DryRunAnnotation] != "true"
}

// apply records the copies, grouped by source.
func (c *copyrator) apply(
	ctx context.Context, p *pass, rule *policy.Rule, peers []peer, copies []policy.Copy, r *status.Report,
) error {
	sum, last := sha256.New(), &contentSlot{}
	var s *source
	for _, copied := range copies {
		if s == nil || s.meta != copied.Source {
			var err error
			if s, err = openSource(ctx, p, rule, peers, copied.Source, last); err != nil {
				return err
			}
			fmt.Fprintln(sum, s.meta.Namespace, s.meta.Name, s.digest.Sum)
			if s.digest.NeverReason != "" {
				r.Failures = append(r.Failures, status.NewFailure(s.meta, "NotCopied", s.digest.NeverReason))
			}
		}
		if s.digest.NeverReason != "" {
			continue
		}
		fmt.Fprintln(sum, copied.Namespace)
		s.apply(p, copied.Namespace)
		r.Desired++
	}
	r.Digest = hex.EncodeToString(sum.Sum(nil)[:8])
	return nil
}

// finalize orphans the copies if the rule asks for that. Otherwise the SDK deletes them.
func (c *copyrator) finalize(_ context.Context, p *pass) error {
	if p.Object.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	gauges.remove(p.Object.UID)
	return nil
}
