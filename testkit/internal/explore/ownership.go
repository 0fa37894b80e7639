package explore

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
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
	return resp, nil
}

// claim adds a written cluster-scoped object to the history of the run.
func (v *view) claim(c *intercept.Call) {
	if v.log != nil && c.Namespace == "" && c.UID != "" && c.IsWrite() && c.Code < http.StatusMultipleChoices {
		v.log.Claim(types.UID(c.UID))
	}
}

// isHidden reports whether an object belongs to another run. The operator would react to it.
func (v *view) isHidden(namespace, name string) bool {
	return v.log != nil && v.log.BelongsToAnother(namespace, name)
}

// isOwn reports whether the history has the object of a request, if the API server stores it.
func (v *view) isOwn(c intercept.Call) bool {
	return (c.Namespace == "" || v.log.Has(c.Namespace)) && v.x.recorder.Follows(c.Group, c.Resource)
}
