package testkit

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/homeostat-dev/homeostat/testkit/internal/external"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// External is an HTTP service of a test, in place of one that the operator uses beside the API server.
type External struct {
	// URL is the base URL of the service, without a slash at the end.
	URL string

	service *external.Service
}

// External serves handler on a free port of the loopback interface until the operators of the test have been stopped. Give
// its URL to the operator; in package chaos the function of chaos.Each does that. The requests appear in the timeline.
// Package chaos injects faults at them: its faults external and crash. state returns the state of the service, such as its
// stored entries, as a value that encoding/json encodes. Package chaos compares it after each step with that of the runs
// without a fault. It may be nil. handler and state are called concurrently.
func (k *K) External(handler http.Handler, state func() any) *External {
	k.t.Helper()
	e := &External{service: &external.Service{Handler: handler, State: state}}
	if run, ok := k.t.(interface{ AddExternal(s *external.Service) }); ok {
		run.AddExternal(e.service)
	} else {
		e.service.SetHook(k.recordExternal)
	}
	server := httptest.NewServer(e.service)
	e.URL = server.URL
	k.servers = append(k.servers, server)
	return e
}

// recordExternal adds a request to the timeline of the test.
func (k *K) recordExternal(x *external.Exchange) {
	x.Serve()
	k.obs.enter(report.Entry{
		Lane: report.Operator, Bad: x.Code() >= http.StatusBadRequest,
		Text: fmt.Sprintf("external %s %s -> %d", x.Request.Method, x.Request.URL.Path, x.Code()),
	})
}

// closeServers ends the external services. A request in progress loses its connection.
func (k *K) closeServers() {
	for _, server := range k.servers {
		server.CloseClientConnections()
		server.Close()
	}
}
