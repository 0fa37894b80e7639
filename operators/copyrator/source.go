package copyrator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/status"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// contentSlot holds the content of one source at a time. The copies of a source are written one after another, so each
// source is read once and a reconcile never holds more than one content.
type contentSlot struct {
	source  *source
	content client.Object
}

// source is a source object during one reconcile.
type source struct {
	rule    *policy.Rule
	trusted []peer
	meta    *metav1.PartialObjectMetadata
	digest  desired.ContentDigest
	slot    *contentSlot
	read    func(context.Context) (client.Object, error) // reads the full object with a request
}

// openSources opens the sources that may be copied, by UID, and leaves out the others: those beyond the limit and those with
// a type that is never copied.
func (c *copyrator) openSources(
	ctx context.Context, p *pass, rule *policy.Rule, trusted []peer, found *policy.RuleSources, r *status.Report,
) (map[types.UID]*source, error) {
	if !rule.Trusted() {
		all := len(found.Sources)
		found.Sources = c.limits.LimitSources(found.Sources)
		r.IgnoreSources(all-len(found.Sources), c.limits.Sources)
	}
	opened, last := map[types.UID]*source{}, &contentSlot{}
	var copied []*metav1.PartialObjectMetadata
	for _, meta := range found.Sources {
		s, err := openSource(ctx, p, rule, trusted, meta, last)
		if err != nil {
			return nil, err
		}
		c.sizes.put(p.Object, meta, s.digest.Size)
		if s.digest.NeverReason != "" {
			r.Failures = append(r.Failures, status.NewFailure(meta, "NotCopied", s.digest.NeverReason))
			continue
		}
		opened[meta.UID] = s
		copied = append(copied, meta)
	}
	found.Sources = copied
	return opened, nil
}

// openSource returns a source with the digest of its content. The full object is read only if it has changed.
func openSource(
	ctx context.Context, p *pass, rule *policy.Rule, trusted []peer, meta *metav1.PartialObjectMetadata, last *contentSlot,
) (*source, error) {
	s := &source{rule: rule, trusted: trusted, meta: meta, slot: last}
	if rule.Kind == "Secret" {
		return s, deriveDigest[*corev1.Secret](ctx, p, s)
	}
	return s, deriveDigest[*corev1.ConfigMap](ctx, p, s)
}

func deriveDigest[C client.Object](ctx context.Context, p *pass, s *source) (err error) {
	s.read = func(ctx context.Context) (client.Object, error) { return sdk.GetLive[C](ctx, p, s.meta) }
	s.digest, err = sdk.Derive(ctx, p, s.meta, func(full C) desired.ContentDigest {
		return desired.NewContentDigest(desired.Content(s.rule, full))
	})
	return err
}

// content returns the content with the known digest, or an error if the source has changed since.
func (s *source) content(ctx context.Context) (client.Object, error) {
	if s.slot.source == s {
		return s.slot.content, nil
	}
	full, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	content := desired.Content(s.rule, full)
	if desired.NewContentDigest(content).Sum != s.digest.Sum {
		return nil, fmt.Errorf("reading source %s/%s: %w", s.meta.Namespace, s.meta.Name, apply.ErrStale)
	}
	*s.slot = contentSlot{s, content}
	return content, nil
}

// apply records the copy in one namespace.
func (s *source) apply(p *pass, namespace string) {
	strategy := sdk.Recreate
	if s.rule.Spec.ImmutableStrategy == v1.ImmutableFail {
		strategy = sdk.Stall
	}
	copied := desired.Placeholder(s.digest.Content, desired.Metadata(s.rule, s.meta, namespace))
	if s.rule.Trusted() { // only such rules take over objects
		if before, ok := sdk.Live(p, copied); ok && before.GetAnnotations()[policy.TakenOverAnnotation] != "" {
			markTakenOver(copied)
		}
	}
	sdk.Apply(p, copied, sdk.ContentFrom(s.content), sdk.OnImmutable(strategy), sdk.ConflictReason(status.ReasonConflict),
		sdk.AdoptIf(s.adoptionPolicy()), sdk.OnAdopt(func(existing, desired client.Object) {
			if isForeign(existing) {
				markTakenOver(desired)
			}
		}))
}

// isForeign reports whether an adopted object is no rule's copy, or one that was taken over.
func isForeign(o client.Object) bool {
	annotations := o.GetAnnotations()
	return annotations[policy.TakenOverAnnotation] != "" ||
		o.GetLabels()[apply.OwnerUIDLabel] == "" && annotations[apply.OwnerAnnotation] == ""
}

// markTakenOver marks a copy that replaces an existing object. The map of annotations is the copy's own.
func markTakenOver(copied client.Object) {
	copied.GetAnnotations()[policy.TakenOverAnnotation] = "true"
}

// adoptionPolicy returns the predicate for objects that the rule adopts: its own copies that lost their labels, copies of
// rules without precedence, and what the rule's conflict policy permits. Sources of other trusted rules are never adopted:
// two rules that overwrite each other's sources would leave no source.
func (s *source) adoptionPolicy() func(client.Object) bool {
	return func(o client.Object) bool {
		of := o.GetAnnotations()[apply.OwnerAnnotation]
		// The watch of a conflicting object has no managedFields. Before the adoption the object is read in full.
		ours := len(o.GetManagedFields()) == 0 || apply.OwnedFields(o, name).String() != ""
		if o.GetLabels()[apply.OwnerUIDLabel] != "" { // a copy of another rule
			return ours && s.rule.TakesOver(of, o.GetNamespace())
		}
		if of == s.rule.Namespace+"/"+s.rule.Name && ours {
			return true
		}
		if slices.ContainsFunc(s.trusted, func(p peer) bool { return p.Selects(o) }) {
			return false
		}
		switch s.rule.Spec.ConflictPolicy {
		case v1.ConflictOverwrite:
			return true
		case v1.ConflictAdopt:
			return s.equals(o)
		default:
			return false
		}
	}
}

// equals reports whether an object has the content of a copy. It returns true for an object with metadata only.
func (s *source) equals(o client.Object) bool {
	content := desired.FullContent(o)
	return content == nil || desired.NewContentDigest(content).Sum == s.digest.Sum
}
