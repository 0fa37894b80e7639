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

// This file has the functions for objects selected by labels and for large content.

// Find returns copies of the objects of like's kind that the options select, ordered by namespace and name. The options are
// [client.InNamespace] and [client.MatchingLabels] or [client.MatchingLabelsSelector]; without them all objects match. From
// then on exactly these objects are watched, until a reconcile no longer asks for them: a change of one of them causes a
// reconcile, except for status-only changes. For large objects read the metadata: like is then a
// *metav1.PartialObjectMetadata with the kind.
func Find[C client.Object, T Object](p *Pass[T], like C, opts ...client.ListOption) ([]C, error) {
	gvk, err := apiutil.GVKForObject(like, p.snapshot.kinds.scheme)
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

// Derive returns the result of f for an object with known metadata (see [Find]). The object is read in full and f is called
// once for each version of the object and each generation of p.Object. Only the result is cached, so f must not depend on
// anything else. The result is shared between reconciles and is read-only. If the object was replaced or deleted meanwhile,
// the error restarts the reconcile; return it unchanged.
func Derive[C client.Object, V any, T Object](
	ctx context.Context, p *Pass[T], found *metav1.PartialObjectMetadata, f func(full C) V,
) (V, error) {
	var none V
	key := derivedKey{user: p.Object.GetUID(), uid: found.GetUID()}
	version := found.GetResourceVersion() + " " + strconv.FormatInt(p.Object.GetGeneration(), 10)
	if known, ok := p.derived.get(key, version).(V); ok {
		return known, nil
	}
	full, err := GetLive[C](ctx, p, found)
	if err != nil {
		return none, err
	}
	v := f(full)
	p.derived.put(key, version, v)
	return v, nil
}

// GetLive reads an object with known metadata in full, by one request, and caches nothing. The result may be a later
// version. If the object was replaced or deleted meanwhile, the error restarts the reconcile; return it unchanged.
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

// ContentFrom replaces the object given to [Apply] by the result of fill when it is sent. Large or secret content is then in
// memory only during a write. Both objects must have the same fields. The given object has a digest (see [Derive]) or
// another distinct value where the content has one; a plan shows it as a digest. Its metadata is the one that is sent. fill
// is called once for each request that writes the child, and only if a write is needed. Its error fails the reconcile, like
// an error of Reconcile; return [apply.ErrStale] if the content has changed meanwhile. The kind must be [MetadataOnly].
func ContentFrom[C client.Object](fill func(ctx context.Context) (C, error)) ApplyOption {
	return func(s *plannedChild) {
		s.content = func(ctx context.Context) (client.Object, error) { return fill(ctx) }
	}
}

// derivedCache caches the results of [Derive]. It is safe for concurrent use.
type derivedCache struct {
	mu         sync.Mutex
	values     map[derivedKey]derivedValue
	lastExpiry time.Time
}

type derivedKey struct{ user, uid types.UID }

type derivedValue struct {
	version string
	value   any
	used    time.Time
}

// derivedTTL is the time after which an unused value is dropped. A later use costs one request.
const derivedTTL = time.Hour

func (x *derivedCache) get(key derivedKey, version string) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.values[key]
	if !ok || e.version != version {
		return nil
	}
	e.used = time.Now()
	x.values[key] = e
	return e.value
}

func (x *derivedCache) put(key derivedKey, version string, value any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.values == nil || now.Sub(x.lastExpiry) > derivedTTL {
		fresh := map[derivedKey]derivedValue{}
		for k, e := range x.values {
			if now.Sub(e.used) < derivedTTL {
				fresh[k] = e
			}
		}
		x.values = fresh
		x.lastExpiry = now
	}
	x.values[key] = derivedValue{version, value, now}
}

// readFull returns a function that reads objects in full.
func readFull(c client.Reader) func(context.Context, childID, client.Object) (bool, error) {
	return func(ctx context.Context, id childID, into client.Object) (bool, error) {
		err := c.Get(ctx, id.key, into)
		return err == nil, client.IgnoreNotFound(err)
	}
}
