package explore

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// observer notes the requests of a program.
type observer struct {
	command *Command
	program *program
	mapper  meta.RESTMapper
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	o.command.sentRequest.Store(true)
	if !o.program.isDisconnected.Load() {
		o.program.startup.NoteRequest()
	}
	o.noteAllNamespaces(recorder.ParseRequest(req))
	resp, err := o.next.RoundTrip(req)
	if errors.Is(err, intercept.ErrDisconnected) {
		o.program.isDisconnected.Store(true)
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		// Watch events may be delayed when the program exits. Without this, a reader of the body would wait forever.
		context.AfterFunc(req.Context(), func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// noteAllNamespaces records the resource of a list or a watch of all namespaces.
func (o *observer) noteAllNamespaces(r recorder.Request) {
	resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	if r.Resource == "" || r.Namespace != "" || r.Verb != "list" && r.Verb != "watch" || !o.isNamespaced(resource) {
		return
	}
	o.command.mu.Lock()
	defer o.command.mu.Unlock()
	if name := resource.String(); !slices.Contains(o.command.wide, name) {
		o.command.wide = append(o.command.wide, name)
	}
}

func (o *observer) isNamespaced(resource schema.GroupResource) bool {
	kind, err := o.mapper.KindFor(resource.WithVersion(""))
	if err != nil {
		return false // the API server reports the unknown resource
	}
	mapping, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace
}
