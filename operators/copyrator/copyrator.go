// Package copyrator keeps copies of ConfigMaps and Secrets in other namespaces, as CopyratorRules say.
//
// This file is the whole operator. What a rule means is in internal/desired, what its status says in report.go, and how
// both become requests is the SDK's business.
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
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// name is also the field owner of every copy and the value of its label managed-by.
const name = "copyrator"

type pass = sdk.Pass[*v1.CopyratorRule]

// New returns the operator that works as the options say.
func New(o Options) *sdk.Operator[*v1.CopyratorRule] {
	c := &copyrator{Options: o, settings: desired.Settings{
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
		// Who deletes a rule does not want to wait for its end until somebody resumes it.
		Paused: func(rule *v1.CopyratorRule) bool { return rule.Suspend && rule.DeletionTimestamp == nil },
		DryRun: func(rule *v1.CopyratorRule) bool { return rule.DryRun && rule.DeletionTimestamp == nil },
	}
}

type copyrator struct {
	Options

	settings desired.Settings
}

func (c *copyrator) selects(rule types.NamespacedName) bool {
	ok, _ := path.Match(cmp.Or(c.RuleName, "*"), rule.Name) // the pattern was checked
	return ok
}

func (c *copyrator) reconcile(ctx context.Context, p *pass) error {
	rule, err := c.read(p)
	if err != nil {
		return err
	}
	namespaces, err := namespaces(p)
	if err != nil {
		return err
	}
	found, locked, err := c.find(p, rule, namespaces)
	if err != nil {
		return err
	}
	peers, err := c.peers(p, rule)
	if err != nil {
		return err
	}
	rivals, err := c.rivals(p, rule, peers, namespaces)
	if err != nil {
		return err
	}
	copies, shadowed := found.Copies(namespaces, rivals)
	if p.Object.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	r := report{rule: rule, sources: len(found.Sources), shadowed: shadowed, locked: locked}
	for _, n := range namespaces {
		if rule.Reaches(n) {
			r.namespaces++
		}
	}
	if err := c.apply(ctx, p, rule, peers, copies, &r); err != nil {
		return err
	}
	r.tell(p)
	return nil
}

// read makes sense of the rule and decides what it may do.
func (c *copyrator) read(p *pass) (*desired.Rule, error) {
	rule, err := desired.Read(p.Object, c.settings)
	if err != nil {
		return nil, sdk.Invalid("InvalidRule", "%v", err)
	}
	if c.overreaches(rule, p.Object) {
		p.SetCondition(v1.ConditionAuthorized, metav1.ConditionFalse, "ConflictPolicyNotAllowed",
			"only rules in namespace %s may write over what is there", c.Namespace)
	}
	return rule, c.refuse(p, rule, p.Object)
}

// refuse says why a rule that makes sense has no copies, nil if it has.
func (c *copyrator) refuse(p *pass, rule *desired.Rule, o *v1.CopyratorRule) error {
	switch {
	case rule.Kind == "Secret" && !c.Secrets:
		return sdk.Invalid("SecretsDisabled", "this Copyrator copies no Secrets: run it with --secrets and the rights")
	case rule.NeedsLabels() && len(p.Namespaces) > 0:
		return sdk.Invalid("NamespacesNotWatched",
			"targetNamespaceSelector needs the labels of namespaces, which this Copyrator may not read: name targetNamespaces")
	case c.overreaches(rule, o):
		return sdk.Invalid("NotAuthorized", "conflictPolicy %s is for rules in namespace %s: set it to Skip",
			o.ConflictPolicy, c.Namespace)
	default:
		return nil
	}
}

// overreaches reports whether a rule wants to write over what is there and may not.
func (c *copyrator) overreaches(rule *desired.Rule, o *v1.CopyratorRule) bool {
	return !rule.Trusted() && o.ConflictPolicy != v1.ConflictSkip && o.ConflictPolicy != ""
}

// namespaces returns the metadata of all namespaces or, if the operator is restricted to some, the names of those.
func namespaces(p *pass) ([]*metav1.PartialObjectMetadata, error) {
	if len(p.Namespaces) == 0 {
		return sdk.Find(p, partial("Namespace"))
	}
	var all []*metav1.PartialObjectMetadata
	for _, name := range slices.Sorted(slices.Values(p.Namespaces)) {
		n := partial("Namespace")
		n.Name = name
		all = append(all, n)
	}
	return all, nil
}

// partial is what the metadata of a kind of the core group is read into.
func partial(kind string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return o
}

// find returns the sources of a rule, and the namespaces that it names and may not read. Whether there is anything in those
// makes no difference to either.
func (c *copyrator) find(
	p *pass, rule *desired.Rule, namespaces []*metav1.PartialObjectMetadata,
) (found desired.Found, locked []string, err error) {
	found.Rule = rule
	for _, name := range rule.Sources {
		i := slices.IndexFunc(namespaces, func(n *metav1.PartialObjectMetadata) bool { return n.Name == name })
		if i < 0 && rule.MayRead(name, nil) && len(p.Namespaces) == 0 {
			continue // it may come
		}
		if i < 0 {
			locked = append(locked, name)
			continue
		}
		all, err := sdk.Find(p, partial(rule.Kind), client.InNamespace(name),
			client.MatchingLabelsSelector{Selector: rule.Selector})
		if err != nil {
			return found, nil, err
		}
		whole, granted := rule.MayRead(name, namespaces[i].Annotations), false
		for _, o := range all {
			copied := o.DeletionTimestamp == nil && o.Name != rootCertificates && !desired.IsCopy(o)
			if copied && (whole || rule.Granted(o.Annotations)) {
				found.Sources, granted = append(found.Sources, o), true
			}
		}
		if !whole && !granted {
			locked = append(locked, name)
		}
	}
	return found, locked, nil
}

// rootCertificates is a ConfigMap that Kubernetes keeps in every namespace.
const rootCertificates = "kube-root-ca.crt"

// peer is another rule that makes sense, for objects of the same kind.
type peer struct {
	*desired.Rule

	object *v1.CopyratorRule
}

// peers returns the other rules for objects of the same kind, whether they are followed or not.
func (c *copyrator) peers(p *pass, rule *desired.Rule) ([]peer, error) {
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
			if r, err := desired.Read(o, c.settings); err == nil && r.Kind == rule.Kind && o.UID != p.Object.UID {
				all = append(all, peer{r, o})
			}
		}
	}
	return all, nil
}

// rivals returns the rules that come before this one somewhere, with what they copy.
func (c *copyrator) rivals(
	p *pass, rule *desired.Rule, peers []peer, namespaces []*metav1.PartialObjectMetadata,
) ([]desired.Found, error) {
	var all []desired.Found
	for _, other := range peers {
		if !c.copies(other.object) || !other.MayComeBefore(rule) || c.refuse(p, other.Rule, other.object) != nil {
			continue
		}
		found, _, err := c.find(p, other.Rule, namespaces)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// copies reports whether a rule is one that is followed and makes copies now. What a suspended one has made keeps its place
// by being there; a place where it has made nothing is not kept free for it.
func (c *copyrator) copies(rule *v1.CopyratorRule) bool {
	return c.selects(client.ObjectKeyFromObject(rule)) && !rule.Suspend && !rule.DryRun && rule.DeletionTimestamp == nil &&
		rule.Annotations[sdk.PausedAnnotation] != "true" && rule.Annotations[sdk.DryRunAnnotation] != "true"
}

// apply records the copies, those of one source after those of another.
func (c *copyrator) apply(
	ctx context.Context, p *pass, rule *desired.Rule, peers []peer, copies []desired.Copy, r *report,
) error {
	sum, last := sha256.New(), &slot{}
	var s *source
	for _, copied := range copies {
		if s == nil || s.meta != copied.Source {
			var err error
			if s, err = open(ctx, p, rule, peers, copied.Source, last); err != nil {
				return err
			}
			fmt.Fprintln(sum, s.meta.Namespace, s.meta.Name, s.excerpt.Sum)
			if s.excerpt.Never != "" {
				r.failures = append(r.failures, failure(s.meta, "NotCopied", s.excerpt.Never))
			}
		}
		if s.excerpt.Never != "" {
			continue
		}
		fmt.Fprintln(sum, copied.Namespace)
		s.apply(p, copied.Namespace)
		r.desired++
	}
	r.digest = hex.EncodeToString(sum.Sum(nil)[:8])
	return nil
}

// finalize lets the copies go with the rule, unless they are to be kept. The SDK deletes them.
func (c *copyrator) finalize(_ context.Context, p *pass) error {
	if p.Object.OrphanPolicy == v1.OrphanKeep {
		p.OrphanChildren()
	}
	gauges.forget(p.Object.UID)
	return nil
}
