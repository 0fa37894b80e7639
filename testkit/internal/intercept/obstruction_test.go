package intercept_test

import (
	"net/http"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

func TestObstruct(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	w := intercept.New(nil)
	c := client(w, 1)
	watch := send(t, c, http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = watch.Body.Close() }()
	w.Obstruct(func(req *http.Request, call *intercept.Call) (*http.Response, bool, error) {
		if call.Name == "b" {
			return nil, false, nil
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, true, nil
	})
	code := func(name string) int {
		resp := send(t, c, http.MethodGet, url+pods+"/"+name, "")
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if a, b := code("a"), code("b"); a != http.StatusServiceUnavailable || b != http.StatusCreated {
		t.Errorf("requests were answered with %d and %d, want 503 and 201", a, b)
	}
	events <- event("seen")
	line := make([]byte, 1)
	if _, err := watch.Body.Read(line); err != nil {
		t.Errorf("an open watch ends: %v", err)
	}
	if n := w.Clear(); n != 1 {
		t.Errorf("%d requests were obstructed, want 1", n)
	}
	if got := code("a"); got != http.StatusCreated {
		t.Errorf("a later request is answered with %d, want 201", got)
	}
}
