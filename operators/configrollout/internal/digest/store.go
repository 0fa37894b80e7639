package digest

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

// kept is how many objects' sums are kept: some 100 bytes for each key of each.
const kept = 10000

// Store finds out the content of objects. It reads an object only if it has not read that version before, and keeps its
// sums, never its values. It is safe for concurrent use.
type Store struct {
	// Cached tells which version of an object there is, from metadata alone. Nil means to read each object each time.
	Cached client.Reader
	// Live reads objects.
	Live client.Reader
	// Took is told how long each reading took. Optional.
	Took func(time.Duration)
	// Ignored reports whether an object asks for its changes to mean nothing.
	Ignored func(metav1.Object) bool

	sums    *lru.Cache
	reading singleflight.Group
}

// NewStore returns a store.
func NewStore(cached, live client.Reader, ignored func(metav1.Object) bool, took func(time.Duration)) *Store {
	return &Store{Cached: cached, Live: live, Ignored: ignored, Took: took, sums: lru.New(kept)}
}

// Trust says how far the cache may be trusted, which lags behind.
type Trust int

// What the cache may be trusted with.
const (
	// All is for looking whether there is anything to do.
	All Trust = iota
	// Present is for writing: that something does not exist is asked of the API server.
	Present
	// Nothing is for writing what nobody looks at again.
	Nothing
)

// Content returns what there is of the object that ref names.
func (s *Store) Content(ctx context.Context, namespace string, ref reference.Ref, trust Trust) (Content, error) {
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	if s.Cached == nil || trust == Nothing {
		return s.read(ctx, key, ref.Kind)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(ref.Kind)))
	err := s.Cached.Get(ctx, key, meta)
	switch {
	case apierrors.IsNotFound(err) && trust == All:
		return Content{}, nil
	case apierrors.IsNotFound(err):
		return s.read(ctx, key, ref.Kind)
	case err != nil:
		return Content{}, err
	}
	if known, ok := s.sums.Get(versionOf(meta)); ok {
		return known.(Content), nil //nolint:forcetypeassert // nothing else is put there.
	}
	return s.read(ctx, key, ref.Kind)
}

// read reads the object, once for all who ask at the same time.
func (s *Store) read(ctx context.Context, key types.NamespacedName, kind reference.Kind) (Content, error) {
	c, err, _ := s.reading.Do(string(kind)+"/"+key.String(), func() (any, error) { return s.get(ctx, key, kind) })
	if err != nil {
		return Content{}, err
	}
	return c.(Content), nil //nolint:forcetypeassert // get returns nothing else.
}

func (s *Store) get(ctx context.Context, key types.NamespacedName, kind reference.Kind) (Content, error) {
	began := time.Now()
	var o client.Object = &corev1.ConfigMap{}
	if kind == reference.Secret {
		o = &corev1.Secret{}
	}
	if err := s.Live.Get(ctx, key, o); err != nil {
		return Content{}, client.IgnoreNotFound(err)
	}
	c := Content{Exists: true, Ignored: s.Ignored(o), Version: o.GetResourceVersion()}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		c.Keys = Of(o.Data, o.BinaryData)
	case *corev1.Secret:
		c.Keys = Of(nil, o.Data)
	}
	s.sums.Add(versionOf(o), c)
	if s.Took != nil {
		s.Took(time.Since(began))
	}
	return c, nil
}

// versionOf identifies one version of one object.
func versionOf(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }
