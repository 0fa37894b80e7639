// Package recorder lists the requests that one client sends to an API server. With it a test can check, for example,
// that an operator wrote nothing within a minute or patched an object once, including requests of its informers.
//
// It works in the HTTP transport, shared by all clients of a process. It does not change, delay or fail requests.
package recorder

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// A Request is one request to the API server, in the server's terms.
type Request struct {
	// Verb is get, list, watch, create, update, patch, apply, delete or deletecollection.
	Verb string
	// Group and Resource are, for example, "apps" and "deployments". For a path that is no resource, such as /readyz,
	// both are empty and Name is the path.
	Group, Resource string
	// Subresource is for example "status", or empty.
	Subresource string
	// Namespace and Name identify the object. For a created object, Name is the name that the server assigned.
	Namespace, Name string
	// Code is the HTTP status, or 0 without a response.
	Code int
	// DryRun is set for a dry-run request.
	DryRun bool
}

// String returns the request in the form "patch pods/status default/web -> 200".
func (r Request) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s -> %d", r.Verb, resource, name, r.Code)), " ")
}

// IsWrite reports whether the request can change objects on the server.
func (r Request) IsWrite() bool {
	switch r.Verb {
	case "create", "update", "patch", "apply", "delete", "deletecollection":
		return !r.DryRun
	default:
		return false
	}
}

// class separates requests that an idle operator keeps sending from all others.
type class int

const (
	ordinary class = iota
	watching
	electing
	classes
)

func (r Request) class() class {
	switch {
	case r.Group == "coordination.k8s.io" && r.Resource == "leases" && r.Verb != "watch":
		return electing
	case r.Verb == "watch":
		return watching
	default:
		return ordinary
	}
}

// A Recorder holds the requests of all clients of the wrapped configurations. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	requests [classes][]Request
	running  int           // ordinary requests in flight, and watches that have not sent all existing objects yet
	changed  chan struct{} // closed and replaced whenever running changes
}

// New returns an empty recorder.
func New() *Recorder { return &Recorder{changed: make(chan struct{})} }

// Wrap returns a copy of cfg. Its clients are recorded. The clients use JSON, so that names can be read.
func (r *Recorder) Wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, recorder: r} })
	return cfg
}

// Requests returns, in the order of the responses, all requests except watches and leader election. A list that the
// server streams to an informer counts as a watch.
func (r *Recorder) Requests() []Request { return r.snapshot(ordinary) }

// Watches returns the watches in the order of their start.
func (r *Recorder) Watches() []Request { return r.snapshot(watching) }

// LeaseRequests returns the requests on Lease objects, as leader election sends them.
func (r *Recorder) LeaseRequests() []Request { return r.snapshot(electing) }

// Writes returns the requests that could change objects, without leader election.
func (r *Recorder) Writes() []Request {
	return slices.DeleteFunc(r.Requests(), func(req Request) bool { return !req.IsWrite() })
}

// Reset discards all recorded requests.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = [classes][]Request{}
}

// WaitIdle returns when no request has been in flight for the given time, or with ctx's error. Leader election does not
// count, nor does a watch after its response has begun. If the watch takes the place of a list, it counts until it has sent
// all existing objects: an operator that starts may wait for them for seconds.
func (r *Recorder) WaitIdle(ctx context.Context, quiet time.Duration) error {
	var last chan struct{}
	for silent := 0; ; {
		r.mu.Lock()
		running, changed := r.running, r.changed
		r.mu.Unlock()
		if changed != last {
			last, silent = changed, 0
		}
		if silent == quietParts {
			return nil
		}
		var silence <-chan time.Time
		if running == 0 {
			silence = time.After(quiet / quietParts)
		}
		select {
		case <-silence:
			silent++
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %v without a request: %w", quiet, ctx.Err())
		}
	}
}

// quietParts is the number of parts in which WaitIdle waits. After a time in which the machine did not run this process, at
// most one of them is over, and the operator has the others to continue.
const quietParts = 10

func (r *Recorder) snapshot(c class) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests[c])
}

// add records a request.
func (r *Recorder) add(req Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := req.class()
	r.requests[c] = append(r.requests[c], req)
}

// count changes the number of requests in flight.
func (r *Recorder) count(delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running += delta
	close(r.changed)
	r.changed = make(chan struct{})
}
