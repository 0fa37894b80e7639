// Package external serves the HTTP services of a test that an operator uses beside the API server. A hook may delay, refuse
// or lose each request.
//
// The package does not know faults or runs: a hook decides on the outcome of a request.
package external

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// Service is an HTTP service. It is an http.Handler and is safe for concurrent use.
type Service struct {
	// Handler is the service of the test.
	Handler http.Handler
	// State returns the state that the runs of a scenario are compared by, or nil. It may be called concurrently with Handler.
	State func() any

	hook atomic.Pointer[func(*Exchange)]
}

// SetHook sets the function that is called for each request.
func (s *Service) SetHook(hook func(*Exchange)) { s.hook.Store(&hook) }

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	x := &Exchange{Request: req, handler: s.Handler}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender was killed
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if hook := s.hook.Load(); hook != nil {
		(*hook)(x)
	}
	if x.Lost {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	x.Serve()
	maps.Copy(w.Header(), x.response.Header())
	w.WriteHeader(x.response.Code)
	_, _ = w.Write(x.response.Body.Bytes()) // the sender may be gone
}

// Exchange is one request and its outcome. It is not safe for concurrent use.
type Exchange struct {
	Request *http.Request
	// Lost breaks the connection without a response.
	Lost bool

	handler  http.Handler
	response *httptest.ResponseRecorder
}

// Serve lets the service handle the request, unless it has a response. The response is sent when the hook has returned.
func (x *Exchange) Serve() {
	if x.response == nil {
		x.response = httptest.NewRecorder()
		x.handler.ServeHTTP(x.response, x.Request)
	}
}

// Refuse answers instead of the service.
func (x *Exchange) Refuse(code int) {
	x.response = httptest.NewRecorder()
	http.Error(x.response, http.StatusText(code), code)
}

// Code returns the status code of the response, or 0 without a response.
func (x *Exchange) Code() int {
	if x.response == nil {
		return 0
	}
	return x.response.Code
}
