package explore

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// This file decides which objects outside of its first namespace belong to a run: see package history.

// userHook adds the cluster-scoped objects of the scenario to the history.
type userHook struct{ run *run }

// Before implements intercept.Hook.
func (h *userHook) Before(*http.Request, *intercept.Call) (*http.Response, error) {
	return nil, nil //nolint:nilnil // the request passes
}

// After implements intercept.Hook.
func (h *userHook) After(_ *http.Request, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	h.run.claim(c)
	h.run.noteChange(c)
	return resp, nil
}

// claim adds a written cluster-scoped object to the history of the run.
func (v *view) claim(c *intercept.Call) {
	if v.log != nil && c.Namespace == "" && c.UID != "" && c.IsWrite() && c.Code < http.StatusMultipleChoices {
		v.log.Claim(types.UID(c.UID))
	}
}

// isHidden reports whether the operator does not see an object: it belongs to another run or, with HideShared, is in a
// namespace of no run. The operator would react to it.
func (v *view) isHidden(kind intercept.GroupResource, namespace, name string) bool {
	if v.log == nil {
		return false
	}
	if kind == (intercept.GroupResource{Resource: "namespaces"}) {
		namespace = name
	}
	return v.log.BelongsToAnother(namespace, name) || v.x.HideShared && namespace != "" && !v.log.Has(namespace)
}

// isOwn reports whether the history has the object of a request, if the API server stores it.
func (v *view) isOwn(c intercept.Call) bool {
	return (c.Namespace == "" || v.log.Has(c.Namespace)) && v.x.recorder.Follows(c.Group, c.Resource)
}

// removeFurther deletes the cluster-scoped objects and the further namespaces of the run when its operator has ended. Errors
// are ignored: those of a test that ends are not the operator's.
func (r *run) removeFurther() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.space.Context()), r.x.Timeout)
	defer cancel()
	if webhooks := r.space.Webhooks(); webhooks != nil {
		webhooks.Open()
	}
	for _, c := range r.log.CurrentObjects() {
		if o := c.Object; o.GetNamespace() == "" && r.log.Has(o.GetName()) && o.GetName() != r.space.Namespace {
			_ = scenario.Remove(ctx, r.space.Client, o)
		}
	}
}
