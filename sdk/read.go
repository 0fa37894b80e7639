package sdk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Live returns a copy of the observed child of that type and name, and whether it exists. It finds only children of
// p.Object, of the kinds that the operator owns. It is a function because Go methods have no type parameters.
func Live[C client.Object, T Object](p *Pass[T], like C) (C, bool) {
	s := &desired.Child{Desired: like}
	p.record.Observe(s)
	return object.CopyAs(s.Live, like), s.Live != nil
}

// Observed returns copies of the objects of an observed kind that belong to p.Object, ordered by name. The kind must be
// listed in [Operator.Observes].
func Observed[C client.Object, T Object](p *Pass[T], like C) []C {
	gvk, err := apiutil.GVKForObject(like, p.record.Snapshot.Kinds.Scheme)
	if err == nil && !slices.Contains(p.record.Snapshot.Kinds.Observed, gvk) {
		err = fmt.Errorf("kind %s is not observed: add it to Observes", gvk.Kind)
	}
	if err != nil {
		p.record.Fail(err)
		return nil
	}
	all := make([]C, len(p.record.Snapshot.Observed[gvk]))
	for i, o := range p.record.Snapshot.Observed[gvk] {
		all[i] = object.CopyAs(o, like)
	}
	slices.SortFunc(all, func(a, b C) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// Ref reads an object that p.Object refers to, for example a Secret, by the name and namespace of like. The namespace
// defaults to that of p.Object if the kind is namespaced. From then on exactly that object is watched, until a reconcile no
// longer asks for it: a change of it causes a reconcile. A missing object is a [Wait] with reason ReferenceNotFound, to be
// returned by Reconcile.
func Ref[C client.Object, T Object](p *Pass[T], like C) (C, error) {
	empty := object.Empty(like)
	gvk, err := apiutil.GVKForObject(like, p.record.Snapshot.Kinds.Scheme)
	if err != nil {
		return empty, fmt.Errorf("finding the kind of %T: %w", like, err)
	}
	p.record.Snapshot.Kinds.DefaultNamespace(like, gvk, p.Object.GetNamespace())
	id := object.ID{GVK: gvk, Key: client.ObjectKeyFromObject(like)}
	found, err := p.record.References.One(id, empty)
	switch {
	case err != nil:
		return empty, err
	case found == nil && id.Key.Namespace == "":
		return empty, Wait("ReferenceNotFound", "%s does not exist", id)
	case found == nil:
		return empty, Wait("ReferenceNotFound", "%s does not exist in namespace %s", id.From(id.Key.Namespace), id.Key.Namespace)
	}
	live, ok := object.Copy(found).(C)
	if !ok {
		return empty, fmt.Errorf("reading %s: it is also read as a %T", id, found)
	}
	return live, nil
}

// Find returns copies of the objects of like's kind that the options select, ordered by namespace and name. The options are
// [client.InNamespace] and [client.MatchingLabels] or [client.MatchingLabelsSelector]; without them all objects match. From
// then on exactly these objects are watched, until a reconcile no longer asks for them: a change of one of them causes a
// reconcile, except for status-only changes. For large objects read the metadata: like is then a
// *metav1.PartialObjectMetadata with the kind.
func Find[C client.Object, T Object](p *Pass[T], like C, opts ...client.ListOption) ([]C, error) {
	gvk, err := apiutil.GVKForObject(like, p.record.Snapshot.Kinds.Scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", like, err)
	}
	list := client.ListOptions{}
	list.ApplyOptions(opts)
	t := reference.Target{ID: object.ID{GVK: gvk, Key: types.NamespacedName{Namespace: list.Namespace}}}
	for _, opt := range opts {
		switch opt := opt.(type) {
		case sharedWatch:
			t.Shared = true
		case keepAnnotations:
			t.Reduced = true
			t.Annotations = opt.names
		}
	}
	if list.LabelSelector != nil {
		t.Labels = list.LabelSelector.String()
	}
	shared, err := p.record.References.All(t, object.Empty(like))
	if err != nil {
		return nil, err
	}
	found := make([]C, 0, len(shared))
	for _, o := range shared {
		c, ok := object.Copy(o).(C)
		if !ok {
			return nil, fmt.Errorf("reading %s: it is also read as a %T", t, o)
		}
		c.GetObjectKind().SetGroupVersionKind(gvk)
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b C) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}

// SharedWatch returns an option for [Find]: all selections of a kind in a namespace share one watch of all of its objects,
// and the labels are evaluated in memory. Without it each selection has a watch of its own. Use it for selectors that users
// write, so that a new selector costs neither a watch nor the time to read it, together with [KeepAnnotations].
func SharedWatch() client.ListOption { return sharedWatch{} }

// KeepAnnotations returns an option for [Find] of metadata: of each object the watch keeps only the name, the versions, the
// times, the labels, the controller and these annotations. An object with more than 16 KiB of labels has none in it. The
// memory then does not depend on what the authors of the objects write into their metadata.
func KeepAnnotations(names ...string) client.ListOption {
	return keepAnnotations{names: strings.Join(names, ",")}
}

// sharedWatch and keepAnnotations do not change a list request.
type (
	sharedWatch     struct{}
	keepAnnotations struct{ names string }
)

// ApplyToList implements client.ListOption.
func (sharedWatch) ApplyToList(*client.ListOptions) {}

// ApplyToList implements client.ListOption.
func (keepAnnotations) ApplyToList(*client.ListOptions) {}

// ErrNotSynced means that the watch of a reference has not been read yet, in an error of [Ref] or [Find]. Return the error
// unchanged: the object is reconciled again as soon as the reference was read.
var ErrNotSynced = retry.ErrNotSynced

// Installed reports whether the API server knows the kind of like, an owned kind. A later installation of the kind causes a
// reconcile. Use it to do without an optional kind. Applying an object of a missing kind is a [Wait] with reason
// KindNotInstalled, so that p.Object is not ready.
func Installed[T Object](p *Pass[T], like client.Object) bool {
	gvk, err := apiutil.GVKForObject(like, p.record.Snapshot.Kinds.Scheme)
	return err == nil && slices.Contains(p.record.Snapshot.Kinds.Owned, gvk) && !p.record.Snapshot.Kinds.IsMissing(gvk)
}
