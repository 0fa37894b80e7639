// Package recorder lists the requests that one client sends to an API server, so that a test can say "nothing was
// written in the last minute" or "this object was patched once" of an operator, its informers included.
//
// It sits in the HTTP transport because that is the one place that every client of a process shares. It does not
// change, delay or fail requests.
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

// A Request is one request to the API server as the server would name it.
type Request struct {
	// Verb is get, list, watch, create, update, patch, apply, delete or deletecollection.
	Verb string
	// Group and Resource name the kind of object, for example "apps" and "deployments". For a path that is no
	// resource, such as /readyz, both are empty and Name is the path.
	Group, Resource string
	// Subresource is for example "status", or empty.
	Subresource string
	// Namespace and Name say which object. The name of a created object is the one the server gave it.
	Namespace, Name string
	// Code is the HTTP status, 0 when there was no answer.
	Code int
	// DryRun says that the request asked not to be carried out.
	DryRun bool
}

// String reads like "patch pods/status default/web -> 200".
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

// Writes says whether the request can change something on the server.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "apply", "delete", "deletecollection":
		return !r.DryRun
	default:
		return false
	}
}

// class separates what an idle operator keeps doing from what it should not.
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

// A Recorder holds the requests of the clients made from the configurations it wrapped. It may be used from several
// goroutines.
type Recorder struct {
	mu       sync.Mutex
	requests [classes][]Request
	running  int           // ordinary requests under way
	changed  chan struct{} // closed and replaced whenever running changes
}

// New returns an empty recorder.
func New() *Recorder { return &Recorder{changed: make(chan struct{})} }

// Wrap returns a copy of cfg whose clients are recorded. It makes them speak JSON, so that names can be read.
func (r *Recorder) Wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, recorder: r} })
	return cfg
}

// Requests returns, in the order of their answers, all requests that are neither watches nor about leader election.
// An informer's list that is answered as a stream is a watch.
func (r *Recorder) Requests() []Request { return r.snapshot(ordinary) }

// Watches returns the watches, each when it was opened.
func (r *Recorder) Watches() []Request { return r.snapshot(watching) }

// Leases returns the requests on Lease objects, as leader election makes them.
func (r *Recorder) Leases() []Request { return r.snapshot(electing) }

// Writes returns the requests, leader election apart, that could change something.
func (r *Recorder) Writes() []Request {
	return slices.DeleteFunc(r.Requests(), func(req Request) bool { return !req.Writes() })
}

// Reset forgets everything recorded so far.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = [classes][]Request{}
}

// WaitIdle returns when no ordinary request has been under way for the given time, or with ctx's error.
func (r *Recorder) WaitIdle(ctx context.Context, quiet time.Duration) error {
	for {
		r.mu.Lock()
		running, changed := r.running, r.changed
		r.mu.Unlock()
		var silence <-chan time.Time
		if running == 0 {
			silence = time.After(quiet)
		}
		select {
		case <-silence:
			return nil
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %v without a request: %w", quiet, ctx.Err())
		}
	}
}

func (r *Recorder) snapshot(c class) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests[c])
}

// begin and end bracket a request. Only ordinary ones count as under way: a watch never ends by itself.
func (r *Recorder) begin(req Request) {
	if req.class() == ordinary {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.count(+1)
	}
}

func (r *Recorder) end(req Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := req.class()
	r.requests[c] = append(r.requests[c], req)
	if c == ordinary {
		r.count(-1)
	}
}

func (r *Recorder) count(delta int) {
	r.running += delta
	close(r.changed)
	r.changed = make(chan struct{})
}
