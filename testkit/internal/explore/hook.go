package explore

import (
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// hook numbers the operator's requests and injects the plan's fault at one of them. A combined plan has several.
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
	p := h.run.plan.ForTarget(t.ID())
	if p == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	c.Target = t.ID()
	if p.OnRequest == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	return p.OnRequest(controls{h.run, p}, req, c)
}

// After implements intercept.Hook.
func (h *hook) After(_ *http.Request, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	h.run.claim(c)
	if c.Verb == "create" {
		h.run.groupOf(c) // stores the generated name
	}
	if c.Target == "" {
		return resp, nil
	}
	p := h.run.plan.ForTarget(c.Target)
	if p == nil || p.OnResponse == nil {
		return resp, nil
	}
	return p.OnResponse(controls{h.run, p}, c, resp)
}
