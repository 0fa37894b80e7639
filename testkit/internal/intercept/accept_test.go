package intercept_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// The metadata client accepts protobuf. A protobuf watch has no lines, so the interceptor could not forward single
// events: an event would be delayed until a later one happens to contain the byte of a line break.
func TestResponsesAreJSON(t *testing.T) {
	t.Parallel()
	var asked string
	transport := intercept.New(nil).Transport(1, roundTrip(func(req *http.Request) (*http.Response, error) {
		asked = req.Header.Get("Accept")
		return httptest.NewRecorder().Result(), nil
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods?watch=true", http.NoBody)
	const wants = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	req.Header.Set("Accept", wants)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	if asked != want {
		t.Errorf("the API server is asked for %q, want %q", asked, want)
	}
	if got := req.Header.Get("Accept"); got != wants {
		t.Errorf("the request of the operator was changed to %q", got)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
