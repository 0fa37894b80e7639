package external

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCheckResponse(t *testing.T) {
	t.Parallel()
	const unknown, notFound, exists, later, rejected = "unknown", "not found", "exists", "later", "rejected"
	for code, want := range map[int]string{
		200: "", 201: "", 204: "", 302: unknown, 400: rejected, 401: rejected, 403: rejected, 404: notFound, 408: unknown,
		409: exists, 410: notFound, 412: unknown, 422: rejected, 423: unknown, 425: unknown, 429: later, 500: unknown,
		502: unknown, 503: unknown, 504: unknown,
	} {
		err := CheckResponse(&http.Response{
			StatusCode: code, Header: http.Header{"Retry-After": {"7"}}, Body: io.NopCloser(strings.NewReader("no quota left\n")),
		})
		got := unknown
		after, isLater := Delay(err)
		switch {
		case err == nil:
			got = ""
		case errors.Is(err, ErrNotFound):
			got = notFound
		case errors.Is(err, ErrExists):
			got = exists
		case isLater && after == 7*time.Second:
			got = later
		case IsRejected(err):
			got = rejected
		}
		if got != want {
			t.Errorf("%d is %q (%v), want %q", code, got, err, want)
		}
		if err != nil && !strings.HasSuffix(err.Error(), ": no quota left") {
			t.Errorf("%d: the error lacks the text of the body: %v", code, err)
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "120": 2 * time.Minute,
		"Fri, 27 Nov 2026 10:00:30 GMT": 30 * time.Second, "Fri, 27 Nov 2026 09:00:00 GMT": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q is %v, want %v", header, got, want)
		}
	}
}
