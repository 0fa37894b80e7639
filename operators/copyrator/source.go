package copyrator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// slot holds the content of one source at a time. Copies of one source follow each other, so that it is read once for all,
// and a pass never holds more.
type slot struct {
	of      *source
	content client.Object
}

// source is one object that is copied, during one pass.
type source struct {
	rule    *desired.Rule
	peers   []peer
	meta    *metav1.PartialObjectMetadata
	excerpt desired.Excerpt
	last    *slot
	read    func(context.Context) (client.Object, error) // in full, by a request
}

// open looks at a source, which it reads in full only if it has changed.
func open(
	ctx context.Context, p *pass, rule *desired.Rule, peers []peer, meta *metav1.PartialObjectMetadata, last *slot,
) (*source, error) {
	s := &source{rule: rule, peers: peers, meta: meta, last: last}
	if rule.Kind == "Secret" {
		return s, look[*corev1.Secret](ctx, p, s)
	}
	return s, look[*corev1.ConfigMap](ctx, p, s)
}

func look[C client.Object](ctx context.Context, p *pass, s *source) (err error) {
	s.read = func(ctx context.Context) (client.Object, error) { return sdk.GetLive[C](ctx, p, s.meta) }
	s.excerpt, err = sdk.Derive(ctx, p, s.meta, func(full C) desired.Excerpt {
		return desired.NewExcerpt(s.rule.Content(full))
	})
	return err
}

// content returns what the excerpt stands for, or an error if the source has changed meanwhile.
func (s *source) content(ctx context.Context) (client.Object, error) {
	if s.last.of == s {
		return s.last.content, nil
	}
	full, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	content := s.rule.Content(full)
	if desired.NewExcerpt(content).Sum != s.excerpt.Sum {
		return nil, fmt.Errorf("reading source %s/%s: %w", s.meta.Namespace, s.meta.Name, apply.ErrStale)
	}
	*s.last = slot{s, content}
	return content, nil
}

// apply records the copy in one namespace.
func (s *source) apply(p *pass, namespace string) {
	policy := sdk.Recreate
	if p.Object.ImmutableStrategy == v1.ImmutableFail {
		policy = sdk.Stall
	}
	sdk.Apply(p, desired.Stand(s.excerpt.StandIn, s.rule.Metadata(s.meta, namespace)), sdk.ContentFrom(s.content),
		sdk.OnImmutable(policy), sdk.ConflictReason(reasonConflict), sdk.AdoptIf(s.adopts(p.Object)))
}

// adopts says what is taken over of what is in the way of a copy: a copy of the same rule that has lost its labels, and what
// the rule says, but for the sources of other rules that may write over what is there: of two of them, each would make
// copies of the other's sources, until there is no source left.
func (s *source) adopts(rule *v1.CopyratorRule) func(client.Object) bool {
	return func(o client.Object) bool {
		if o.GetLabels()[apply.OwnerUIDLabel] != "" { // another rule's
			return false
		}
		of := o.GetAnnotations()[apply.OwnerAnnotation]
		if of == client.ObjectKeyFromObject(rule).String() && apply.OwnedFields(o, name).String() != "" {
			return true
		}
		if slices.ContainsFunc(s.peers, func(p peer) bool { return p.Trusted() && p.Selects(o) }) {
			return false
		}
		switch rule.ConflictPolicy {
		case v1.ConflictOverwrite:
			return true
		case v1.ConflictAdopt:
			return s.equals(o)
		default:
			return false
		}
	}
}

// equals reports whether an object says what a copy would. Of one whose metadata alone is at hand it cannot say no.
func (s *source) equals(o client.Object) bool {
	content := desired.All(o)
	return content == nil || desired.NewExcerpt(content).Sum == s.excerpt.Sum
}
