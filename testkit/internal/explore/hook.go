package explore

import (
	"net/http"

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
	t.Number = h.run.countTarget(t)
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
