package intercept

import "net/http"

// An Obstruction answers a request in place of the API server, or delays it. It returns neither a response nor an error if
// the request is to be sent, and whether it obstructed the request. It is called for several requests at once.
type Obstruction func(req *http.Request, c *Call) (resp *http.Response, obstructed bool, err error)

// Obstruct passes all further requests to an obstruction until Clear, before they reach the hook. Open watches stay open.
func (ic *Interceptor) Obstruct(by Obstruction) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.obstruct = by
	ic.obstructed = 0
}

// Clear ends the obstruction. It returns the number of obstructed requests.
func (ic *Interceptor) Clear() int {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.obstruct = nil
	return ic.obstructed
}

// obstruction passes a request to the obstruction, if there is one.
func (ic *Interceptor) obstruction(req *http.Request, call *Call) (*http.Response, error) {
	ic.mu.Lock()
	by := ic.obstruct
	ic.mu.Unlock()
	if by == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	resp, obstructed, err := by(req, call)
	if obstructed {
		ic.mu.Lock()
		ic.obstructed++
		ic.mu.Unlock()
	}
	return resp, err
}
