package mutants_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// A network is the connection between one process of an operator and the API server. Its zero value changes nothing.
type network struct {
	next http.RoundTripper

	mu      sync.Mutex
	before  hook                     // may fail a request before it is sent
	after   hook                     // may fail one that was executed
	delayed map[string]chan struct{} // by resource; closed when its watches continue
	watches []*watchBody             // that were opened
}

// A hook returns the client's error, or nil.
type hook func(*http.Request) error

var errDown = errors.New("there is no network")

func (n *network) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		n.next = next
		return n
	})
	return cfg
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	before, after := n.hooks()
	if before != nil {
		if err := before(req); err != nil {
			return nil, err
		}
	}
	resp, err := n.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if req.URL.Query().Get("watch") != "" {
		w := &watchBody{ReadCloser: resp.Body, network: n, resource: resource(req), closed: make(chan struct{})}
		resp.Body = w
		n.mu.Lock()
		n.watches = append(n.watches, w)
		n.mu.Unlock()
	}
	if after != nil {
		if err := after(req); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	return resp, nil
}

func (n *network) hooks() (before, after hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.before, n.after
}

func (n *network) set(before, after hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = before
	n.after = after
}

// failAt severs the network right before or right after the first matching request, and closes the channel.
func (n *network) failAt(after bool, match func(*http.Request) bool) <-chan struct{} {
	died, down := make(chan struct{}), func(*http.Request) error { return errDown }
	var once sync.Once
	cut := func(req *http.Request) error {
		if !match(req) {
			return nil
		}
		n.set(down, down)
		once.Do(func() { close(died) })
		return errDown
	}
	if after {
		n.set(nil, cut)
	} else {
		n.set(cut, nil)
	}
	return died
}

// failOnce fails the first matching request without sending it.
func (n *network) failOnce(match func(*http.Request) bool) {
	var once sync.Once
	n.set(func(req *http.Request) (err error) {
		if match(req) {
			once.Do(func() { err = errDown })
		}
		return err
	}, nil)
}

// delayEvents delays the watch events of a resource until release is called.
func (n *network) delayEvents(resource string) (release func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delayed = map[string]chan struct{}{resource: gate}
	return func() { close(gate) }
}

func (n *network) gate(resource string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delayed[resource]
}

// failTimes fails the first n matching requests without sending them.
func (n *network) failTimes(times int32, match func(*http.Request) bool) {
	var left atomic.Int32
	left.Store(times)
	n.set(func(req *http.Request) error {
		if match(req) && left.Add(-1) >= 0 {
			return errDown
		}
		return nil
	}, nil)
}

// failInOrder fails a request that matches the first function, then one that matches the second, and so on.
func (n *network) failInOrder(matches ...func(*http.Request) bool) {
	var mu sync.Mutex
	n.set(func(req *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if len(matches) == 0 || !matches[0](req) {
			return nil
		}
		matches = matches[1:]
		return errDown
	}, nil)
}

// hasWatched reports whether a watch was opened.
func (n *network) hasWatched() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.watches) > 0
}

// openWatches returns the open watches of a resource.
func (n *network) openWatches(resource string) []*watchBody {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.watches), func(b *watchBody) bool {
		select {
		case <-b.closed:
			return true
		default:
			return b.resource != resource
		}
	})
}

// endWatches ends the open watches of a resource. The client gets err, which is io.EOF for a regular end.
func (n *network) endWatches(resource string, err error) {
	for _, w := range n.openWatches(resource) {
		w.end.Store(&err)
		_ = w.Close()
	}
}

// watchBody is the response body of a watch.
type watchBody struct {
	io.ReadCloser

	network  *network
	resource string
	once     sync.Once
	closed   chan struct{}
	end      atomic.Pointer[error] // the error of further reads
}

// Read implements io.Reader.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if end := b.end.Load(); end != nil {
		return 0, *end
	}
	if gate := b.network.gate(b.resource); gate != nil {
		select {
		case <-gate:
		case <-b.closed:
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// resource returns the last part of the path of a collection, such as "configmaps".
func resource(req *http.Request) string {
	return req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
}

// creates matches requests that create an object.
func creates(resource string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/"+resource)
	}
}

// deletes matches requests that delete an object.
func deletes(resource, name string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodDelete && strings.HasSuffix(req.URL.Path, "/"+resource+"/"+name)
	}
}

// updates matches requests that update the object at the end of a path.
func updates(path string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, "/"+path)
	}
}

// gets matches requests that read an object.
func gets(resource, name string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/"+resource+"/"+name)
	}
}

// lists matches requests that list objects once.
func lists(kind string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return req.Method == http.MethodGet && resource(req) == kind && req.URL.Query().Get("watch") == ""
	}
}
