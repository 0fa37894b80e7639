package cloud

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// cloud is a cloud in memory. Its writes take effect at once, and its reads see them after a delay.
type cloud struct {
	mu       sync.Mutex
	buckets  map[string]*bucket // by ID, also former ones
	tokens   map[string]string  // IDs by token, also of former buckets
	requests int
	accepted string // the only accepted credentials; "" accepts all
	pending  int    // observations until a new bucket is provisioned
}

type bucket struct {
	size             int
	pending          int // observations until it is provisioned
	created, deleted time.Time
}

// readDelay is the time after which reads see a write.
const readDelay = 300 * time.Millisecond

// isVisible reports whether reads see the bucket.
func (b *bucket) isVisible() bool {
	return time.Since(b.created) >= readDelay && (b.deleted.IsZero() || time.Since(b.deleted) < readDelay)
}

func newCloud() *cloud {
	return &cloud{pending: 2, buckets: map[string]*bucket{}, tokens: map[string]string{}}
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if c.accepted != "" && req.Header.Get("Authorization") != "Bearer "+c.accepted {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	desired, err := desiredBucket(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := strings.TrimPrefix(req.URL.Path, "/buckets/")
	if req.Method == http.MethodPost {
		id = c.create(req.Header.Get("Idempotency-Key"), desired)
	}
	b := c.buckets[id]
	switch {
	case b == nil, req.Method == http.MethodGet && !b.isVisible(),
		(req.Method == http.MethodPut || req.Method == http.MethodDelete) && !b.deleted.IsZero():
		http.NotFound(w, req)
		return
	case req.Method == http.MethodDelete:
		b.deleted = time.Now()
		w.WriteHeader(http.StatusNoContent)
		return
	case req.Method == http.MethodPut:
		b.size = desired.Size
	case req.Method == http.MethodGet && b.pending > 0:
		b.pending--
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "address": id + ".example", "pending": b.pending > 0})
}

// desiredBucket returns the body of a request, if it has one.
func desiredBucket(req *http.Request) (desired Bucket, err error) {
	if req.Body != nil && req.ContentLength > 0 {
		err = json.NewDecoder(req.Body).Decode(&desired)
	}
	if err == nil && desired.Size > 100 {
		err = errors.New("a bucket has at most 100")
	}
	return desired, err
}

// create returns the ID of the bucket that was created with a token, and creates it if there is none.
func (c *cloud) create(token string, desired Bucket) (id string) {
	if id = c.tokens[token]; id == "" {
		id = rand.Text()
		c.tokens[token] = id
		c.buckets[id] = &bucket{size: desired.Size, pending: c.pending, created: time.Now()}
	}
	return id
}

// state returns the sizes of the buckets.
func (c *cloud) state() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	sizes := []int{}
	for b := range maps.Values(c.buckets) {
		if b.deleted.IsZero() {
			sizes = append(sizes, b.size)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// onlyID returns the ID of a bucket.
func (c *cloud) onlyID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.buckets {
		return id
	}
	return ""
}

func (c *cloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}
