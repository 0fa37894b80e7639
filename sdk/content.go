package sdk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// This file is about objects that a pass finds by their labels, and about what it keeps of them.

// Find returns copies of the objects of the kind of like that the options select, by namespace and name: all there are, or
// those [client.InNamespace] and with [client.MatchingLabels] or [client.MatchingLabelsSelector]. From then on, and until a
// pass no longer asks for the same, exactly these objects are watched: a change of one of them causes a pass, unless it is
// one of its status alone. Of what is large, find the metadata: like is then a *metav1.PartialObjectMetadata with the kind.
func Find[C client.Object, T Object](p *Pass[T], like C, opts ...client.ListOption) ([]C, error) {
	gvk, err := apiutil.GVKForObject(like, p.seen.kinds.scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", like, err)
	}
	list := client.ListOptions{}
	list.ApplyOptions(opts)
	t := target{childID: childID{gvk: gvk, key: types.NamespacedName{Namespace: list.Namespace}}}
	if list.LabelSelector != nil {
		t.labels = list.LabelSelector.String()
	}
	shared, err := p.refs.all(t, object.Empty(like))
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

// Derive returns what f makes of an object of which the metadata was found. For each version of the object, and for each
// generation of p.Object, the object is read once in full and f is called once; nothing but the result is kept. So f must
// depend on nothing else. The result is shared between passes: never change it. An object that was replaced or deleted
// meanwhile is an error that makes the pass start anew; return it as it is.
func Derive[C client.Object, V any, T Object](
	ctx context.Context, p *Pass[T], found *metav1.PartialObjectMetadata, f func(full C) V,
) (V, error) {
	var none V
	key := excerptKey{user: p.Object.GetUID(), uid: found.GetUID()}
	version := found.GetResourceVersion() + " " + strconv.FormatInt(p.Object.GetGeneration(), 10)
	if known, ok := p.excerpts.get(key, version).(V); ok {
		return known, nil
	}
	full, err := GetLive[C](ctx, p, found)
	if err != nil {
		return none, err
	}
	v := f(full)
	p.excerpts.put(key, version, v)
	return v, nil
}

// GetLive reads an object of which the metadata was found, by one request, and keeps nothing of it. It may be a later version
// than was found. Of one that was replaced or deleted meanwhile it returns an error that makes the pass start anew.
func GetLive[C client.Object, T Object](ctx context.Context, p *Pass[T], found *metav1.PartialObjectMetadata) (C, error) {
	id, full := childID{found.GroupVersionKind(), client.ObjectKeyFromObject(found)}, object.New[C]()
	exists, err := p.refs.read(ctx, id, full)
	if err == nil && (!exists || full.GetUID() != found.GetUID()) {
		err = apply.ErrStale
	}
	if err != nil {
		return full, fmt.Errorf("reading %s in namespace %s: %w", id, id.key.Namespace, err)
	}
	return full, nil
}

// ContentFrom makes the object given to [Apply] stand for another that is sent in its place: so what is large or secret is at
// hand only while it is written. Both must have the same fields, and the stand-in another value where the other has one, for
// instance its digest (see [Derive]), which is what a plan calls it; its metadata counts. Fill is called once for each
// request that writes the child, and never without need. Its error fails the pass like one of Reconcile; to start the pass
// anew because what is to be sent has changed meanwhile return [apply.ErrStale]. The kind must be [MetadataOnly].
func ContentFrom[C client.Object](fill func(ctx context.Context) (C, error)) ApplyOption {
	return func(s *step) {
		s.fill = func(ctx context.Context) (client.Object, error) { return fill(ctx) }
	}
}

// excerpts remembers what passes made of objects. It is safe for concurrent use.
type excerpts struct {
	mu    sync.Mutex
	known map[excerptKey]excerpt
	swept time.Time
}

type excerptKey struct{ user, uid types.UID }

type excerpt struct {
	version string
	value   any
	used    time.Time
}

// excerptLimit is for how long an object need not be asked about until it is forgotten, which costs a request later.
const excerptLimit = time.Hour

func (x *excerpts) get(key excerptKey, version string) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.known[key]
	if !ok || e.version != version {
		return nil
	}
	e.used = time.Now()
	x.known[key] = e
	return e.value
}

func (x *excerpts) put(key excerptKey, version string, value any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.known == nil || now.Sub(x.swept) > excerptLimit {
		fresh := map[excerptKey]excerpt{}
		for k, e := range x.known {
			if now.Sub(e.used) < excerptLimit {
				fresh[k] = e
			}
		}
		x.known, x.swept = fresh, now
	}
	x.known[key] = excerpt{version, value, now}
}

// readFull reads objects for excerpts.
func readFull(c client.Reader) func(context.Context, childID, client.Object) (bool, error) {
	return func(ctx context.Context, id childID, into client.Object) (bool, error) {
		err := c.Get(ctx, id.key, into)
		return err == nil, client.IgnoreNotFound(err)
	}
}
