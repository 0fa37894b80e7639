package explore

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// hook numbers the operator's requests and injects the plan's fault at one of them.
type hook struct{ run *run }

// Before implements intercept.Hook.
func (h *hook) Before(req *http.Request, c *intercept.Call) (*http.Response, error) {
	if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" {
		return nil, nil //nolint:nilnil // the request passes
	}
	t := h.run.targetOf(c)
	h.run.mu.Lock()
	h.run.targetCounts[t.Group()]++
	t.Number = h.run.targetCounts[t.Group()]
	h.run.mu.Unlock()
	if h.run.isBlockedByTermination(req.Context(), c) {
		return fault.RejectCreation(req, c), nil
	}
	if t.ID() != h.run.plan.Target {
		return nil, nil //nolint:nilnil // the request passes
	}
	c.Chosen = true
	if h.run.plan.Request == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	return h.run.plan.Request(controls{h.run}, req, c)
}

// After implements intercept.Hook.
func (h *hook) After(_ *http.Request, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	if c.Verb == "create" {
		h.run.groupOf(c) // stores the generated name
	}
	if !c.Chosen || h.run.plan.Answer == nil {
		return resp, nil
	}
	return h.run.plan.Answer(controls{h.run}, c, resp)
}

// isBlockedByTermination reports whether a request would create an object in the terminating namespace.
func (r *run) isBlockedByTermination(ctx context.Context, c *intercept.Call) bool {
	if !r.terminating.Load() || c.Namespace != r.space.Namespace || c.Subresource != "" {
		return false
	}
	if c.Verb != "patch" {
		return c.Verb == "create"
	}
	gvk, err := r.space.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil {
		return false
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(gvk)
	return apierrors.IsNotFound(r.space.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, there))
}
