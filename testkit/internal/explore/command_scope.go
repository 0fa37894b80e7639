package explore

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// scope restricts a program to its run's namespace: it narrows requests for all namespaces to that one.
type scope struct {
	command   *Command
	program   *program
	mapper    meta.RESTMapper
	namespace string
	next      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *scope) RoundTrip(req *http.Request) (*http.Response, error) {
	s.command.sentRequest.Store(true)
	if !s.program.isDisconnected.Load() {
		s.program.noteRequest()
	}
	if path, narrower := s.narrow(req); narrower {
		req = req.Clone(req.Context())
		req.URL.Path = path
		req.URL.RawPath = ""
	}
	resp, err := s.next.RoundTrip(req)
	if errors.Is(err, intercept.ErrDisconnected) {
		s.program.isDisconnected.Store(true)
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		// Watch events may be delayed when the program exits. Without this, a reader of the body would wait forever.
		context.AfterFunc(req.Context(), func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// narrow returns the path of a request for all namespaces, restricted to the run's namespace.
func (s *scope) narrow(req *http.Request) (path string, narrower bool) {
	r := recorder.ParseRequest(req)
	if r.Resource == "" || r.Namespace != "" || r.Subresource != "" ||
		!slices.Contains([]string{"list", "watch", "deletecollection"}, r.Verb) {
		return "", false
	}
	resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	prefix, is := strings.CutSuffix(strings.TrimSuffix(req.URL.Path, "/"), "/"+r.Resource)
	if !is || !s.isNamespaced(resource) || s.command.Everywhere != nil && !s.command.Everywhere(r.Verb, resource) {
		return "", false
	}
	s.command.noteNarrowed(resource)
	return prefix + "/namespaces/" + s.namespace + "/" + r.Resource, true
}

func (s *scope) isNamespaced(resource schema.GroupResource) bool {
	kind, err := s.mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return false // the API server reports the unknown resource
	}
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

func (c *Command) noteNarrowed(resource schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name := resource.String(); !slices.Contains(c.narrowed, name) {
		c.narrowed = append(c.narrowed, name)
	}
}
