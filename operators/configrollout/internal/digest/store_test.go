package digest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
)

// cluster has one ConfigMap, or none, and counts how often it is read in full.
type cluster struct {
	client.Reader

	mu      sync.Mutex
	version string
	data    map[string]string
	slow    chan struct{} // nil, or what a read waits for
	reads   int
}

// metadata is what the cache knows of it.
type metadata struct {
	client.Reader

	of *cluster
}

func notFound(key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

func (m metadata) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.of.version == "" {
		return notFound(key)
	}
	o.SetUID("u")
	o.SetResourceVersion(m.of.version)
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
	return digest.NewStore(metadata{of: c}, c, func(metav1.Object) bool { return false }, func(time.Duration) {})
}

// An object is read in full once for each version of it, and its absence is asked for only if it matters.
func TestEachVersionIsReadOnce(t *testing.T) {
	t.Parallel()
	c := &cluster{version: "1", data: map[string]string{"k": "1"}}
	s := newStore(c)
	look := func(trust digest.Trust, exists bool, reads int, why string) {
		t.Helper()
		content, err := s.Content(t.Context(), "n", ref(), trust)
		if err != nil || content.Exists != exists || c.reads != reads {
			t.Errorf("%s: %v, exists %v after %d reads, want %v after %d", why, err, content.Exists, c.reads, exists, reads)
		}
	}
	look(digest.All, true, 1, "a version that is new")
	look(digest.All, true, 1, "a version that is known")
	look(digest.Present, true, 1, "a version that is known, before a write")
	look(digest.Nothing, true, 2, "a version that is known, before what nobody looks at again")
	c.version, c.data = "2", map[string]string{"k": "2"}
	look(digest.All, true, 3, "another version")
	c.version = ""
	look(digest.All, false, 3, "nothing")
	look(digest.Present, false, 4, "nothing, before a write")
}

// Those who ask at the same time are answered by one read.
func TestReadsAreShared(t *testing.T) {
	t.Parallel()
	c := &cluster{version: "1", slow: make(chan struct{})}
	s := newStore(c)
	var asked, answered sync.WaitGroup
	for range 20 {
		asked.Add(1)
		answered.Go(func() {
			asked.Done()
			if _, err := s.Content(t.Context(), "n", ref(), digest.All); err != nil {
				t.Error(err)
			}
		})
	}
	asked.Wait()
	close(c.slow)
	answered.Wait()
	if c.reads > 10 { // some may have asked after the read was answered, and found it known
		t.Errorf("there were %d reads", c.reads)
	}
}
