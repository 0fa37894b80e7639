package digest

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

// Options configure a store.
type Options struct {
	// Cached returns the version of an object from cached metadata. Nil means to read each object each time.
	Cached client.Reader
	// Live reads objects.
	Live client.Reader
	// ObserveDuration is called with the duration of each read; optional.
	ObserveDuration func(time.Duration)
	// Ignored reports whether an object with these annotations is ignored. An error means that they cannot be read.
	Ignored func(annotations map[string]string) (bool, error)
	// Key returns the key for the values of Secrets. It is not called for ConfigMaps.
	Key func(context.Context) (Key, error)
}

// Store reads the content of objects. It reads each version of an object once, and keeps its hashes, never its values. It
// is safe for concurrent use.
type Store struct {
	Options

	sums    *cache
	reading singleflight.Group
}

// NewStore returns a store.
func NewStore(o Options) *Store { return &Store{Options: o, sums: newCache(maxCacheWeight)} }

// ReadMode limits the use of the cache, which may be stale.
type ReadMode int

// The read modes.
const (
	// TrustCache uses the cache, to find out if there is anything to do.
	TrustCache ReadMode = iota
	// VerifyAbsence asks the API server about a missing object, before a write.
	VerifyAbsence
	// ReadLive asks the API server, before a write that no later reconcile corrects.
	ReadLive
)

// Content returns the content of the object that ref names.
func (s *Store) Content(ctx context.Context, namespace string, ref reference.Ref, mode ReadMode) (Content, error) {
	c, err := s.content(ctx, namespace, ref, mode)
	if err != nil || ref.Kind != reference.Secret {
		return c, err
	}
	key, err := s.Key(ctx)
	c.KeyID = key.ID() // also without an object, so that its creation is a change
	return c, err
}

func (s *Store) content(ctx context.Context, namespace string, ref reference.Ref, mode ReadMode) (Content, error) {
	if len(content.IsPathSegmentName(ref.Name)) > 0 { // a pod template may have any name
		return Content{}, nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
	if s.Cached == nil || mode == ReadLive {
		return s.read(ctx, key, ref.Kind)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(ref.Kind)))
	err := s.Cached.Get(ctx, key, meta)
	switch {
	case apierrors.IsNotFound(err) && mode == TrustCache:
		return Content{}, nil
	case apierrors.IsNotFound(err):
		return s.read(ctx, key, ref.Kind)
	case err != nil:
		return Content{}, err
	}
	if known, ok := s.sums.get(meta); ok {
		return known, nil
	}
	return s.read(ctx, key, ref.Kind)
}

// read reads the object. Concurrent calls share one request.
func (s *Store) read(ctx context.Context, key types.NamespacedName, kind reference.Kind) (Content, error) {
	c, err, _ := s.reading.Do(string(kind)+"/"+key.String(), func() (any, error) { return s.get(ctx, key, kind) })
	if err != nil {
		return Content{}, err
	}
	return c.(Content), nil //nolint:forcetypeassert // get returns Content
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
	ignored, err := s.Ignored(o.GetAnnotations())
	c := Content{Exists: true, Version: o.GetResourceVersion(), Ignored: ignored, IgnoreErr: err}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		c.Keys = KeySums(o.Data, o.BinaryData)
	case *corev1.Secret:
		key, err := s.Key(ctx)
		if err != nil {
			return Content{}, err
		}
		c.Keys = key.KeySums(o.Data)
	}
	s.sums.add(o, c)
	if s.ObserveDuration != nil {
		s.ObserveDuration(time.Since(began))
	}
	return c, nil
}
