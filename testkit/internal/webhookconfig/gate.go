package webhookconfig

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Admission identifies the requests that webhooks admit.
type Admission struct {
	Resource    schema.GroupResource
	Subresource string
	Operation   admissionv1.Operation
}

// A Gate stands before the webhooks of a run. It can obstruct one call. It is safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	seen     map[Admission]bool
	of       Admission
	name     string
	obstruct func() (refuse bool)
	isOpen   bool
}

// Open lets all further requests pass without a call of a webhook, for the deletions at the end of a run.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOpen = true
}

// IsOpen reports whether all requests pass.
func (g *Gate) IsOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOpen
}

// Seen returns whether each kind of request has been admitted by a webhook.
func (g *Gate) Seen() map[Admission]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := map[Admission]bool{}
	for a := range g.seen {
		seen[a] = true
	}
	return seen
}

// Obstruct calls by, once, before the next webhook call about an object. The call is refused if it returns true.
func (g *Gate) Obstruct(of Admission, name string, by func() (refuse bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of = of
	g.name = name
	g.obstruct = by
}

// Clear revokes an obstruction, and reports whether there was still one.
func (g *Gate) Clear() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	pending := g.obstruct != nil
	g.obstruct = nil
	return pending
}

// Refuses reports whether a call is refused. The body of the request can be read again.
func (g *Gate) Refuses(req *http.Request) bool {
	body, err := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	var review admissionv1.AdmissionReview
	if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil {
		return false // the webhook reports it
	}
	a := Admission{
		Resource:    schema.GroupResource{Group: review.Request.Resource.Group, Resource: review.Request.Resource.Resource},
		Subresource: review.Request.SubResource, Operation: review.Request.Operation,
	}
	by := g.take(a, review.Request.Name)
	return by != nil && by()
}

// take records a call, and returns its obstruction, or nil.
func (g *Gate) take(a Admission, name string) func() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = map[Admission]bool{}
	}
	g.seen[a] = true
	if g.isOpen || g.obstruct == nil || g.of != a || g.name != name {
		return nil
	}
	by := g.obstruct
	g.obstruct = nil
	return by
}
