package intercept

import (
	"io"
	"net/http"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// Disconnected returns the response to a request of a killed process, which is not sent: ErrDisconnected, and success for
// an Event. After an error client-go would log the whole Event, write it again for two minutes and keep the memory of the
// process for as long. A leader writes one when it is killed: the manager releases the Lease.
func Disconnected(req *http.Request) (*http.Response, error) {
	r := recorder.ParseRequest(req)
	if r.Resource != "events" || req.Method == http.MethodGet {
		return nil, ErrDisconnected
	}
	body := `{"kind":"Event","apiVersion":"v1"}`
	if r.Group != "" {
		body = `{"kind":"Event","apiVersion":"` + r.Group + `/v1"}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}
