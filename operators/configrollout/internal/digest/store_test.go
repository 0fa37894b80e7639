package digest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
)

// cluster has at most one ConfigMap, and counts its full reads.
type cluster struct {
	client.Reader

	mu      sync.Mutex
	version string
	data    map[string]string
	slow    chan struct{} // blocks reads unless nil
	reads   int
}

// metadata is the cache of the cluster.
type metadata struct {
	client.Reader

	cluster *cluster
}

func notFound(key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

func (m metadata) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.cluster.version == "" {
		return notFound(key)
	}
	o.SetUID("u")
	o.SetResourceVersion(m.cluster.version)
	return nil
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c.slow != nil {
		<-c.slow
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if c.version == "" {
		return notFound(key)
	}
	o.(*corev1.ConfigMap).Data = c.data
	o.SetUID("u")
	o.SetResourceVersion(c.version)
	return nil
}

func newStore(c *cluster) *digest.Store {
	return digest.NewStore(digest.Options{
		Cached: metadata{cluster: c}, Live: c, Ignored: func(map[string]string) (bool, error) { return false, nil },
		ObserveDuration: func(time.Duration) {},
	})
}

// Each version of an object is read once, and its absence is verified only before a write.
func TestEachVersionIsReadOnce(t *testing.T) {
	t.Parallel()
	c := &cluster{version: "1", data: map[string]string{"k": "1"}}
	s := newStore(c)
	read := func(trust digest.ReadMode, exists bool, reads int, why string) {
		t.Helper()
		content, err := s.Content(t.Context(), "n", ref(), trust)
		if err != nil || content.Exists != exists || c.reads != reads {
			t.Errorf("%s: %v, exists %v after %d reads, want %v after %d", why, err, content.Exists, c.reads, exists, reads)
		}
	}
	read(digest.TrustCache, true, 1, "a version that is new")
	read(digest.TrustCache, true, 1, "a version that is known")
	read(digest.VerifyAbsence, true, 1, "a version that is known, before a write")
	read(digest.ReadLive, true, 2, "a version that is known, before a write without a later correction")
	c.version = "2"
	c.data = map[string]string{"k": "2"}
	read(digest.TrustCache, true, 3, "another version")
	c.version = ""
	read(digest.TrustCache, false, 3, "nothing")
	read(digest.VerifyAbsence, false, 4, "nothing, before a write")
}

// Concurrent reads share one request.
func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	c := &cluster{version: "1", slow: make(chan struct{})}
	s := newStore(c)
	var asked, answered sync.WaitGroup
	for range 20 {
		asked.Add(1)
		answered.Go(func() {
			asked.Done()
			if _, err := s.Content(t.Context(), "n", ref(), digest.TrustCache); err != nil {
				t.Error(err)
			}
		})
	}
	asked.Wait()
	close(c.slow)
	answered.Wait()
	if c.reads > 10 { // some calls may come later and hit the cache
		t.Errorf("there were %d reads", c.reads)
	}
}
