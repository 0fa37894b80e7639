package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// replayable is the largest request body that is held in memory. The API server accepts no more than 3 MiB.
const replayable = 4 << 20

// handler forwards the requests of known users.
type handler struct {
	proxy   *Proxy
	forward http.Handler
}

// ServeHTTP panics with http.ErrAbortHandler to break the client's connection.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u, known := h.proxy.beginRequest(bearer(r))
	if !known {
		reject(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized,
			"testkit's proxy does not know this token: use the kubeconfig that was written for this run")
		return
	}
	defer u.requests.Done()
	defer h.report(r)
	if h.proxy.upstream.impersonates && r.Header.Get(transport.ImpersonateUserHeader) != "" {
		reject(w, http.StatusForbidden, metav1.StatusReasonForbidden,
			"testkit's proxy cannot impersonate for a client, because it is impersonating the operator's user itself: "+
				"give it a token of that user as its target")
		return
	}
	ctx, cancel := u.requestContext(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	if err := bufferBody(r); err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	// Otherwise the server would add a type and a date that the response does not have.
	w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
	h.forward.ServeHTTP(&closingWriter{ResponseWriter: w, ctx: ctx}, r)
}

// closingWriter closes a hijacked connection with the request's context. ReverseProxy closes the server's side alone, and
// waits for the client.
type closingWriter struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request
}

// Hijack returns the connection. The context may still close it.
func (e *closingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(e.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	}
	return conn, rw, err
}

// Unwrap gives access to the other optional methods.
func (e *closingWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// report logs a panic of the RoundTripper. The HTTP server would suppress it.
func (h *handler) report(r *http.Request) {
	switch reason := recover(); reason {
	case nil:
	case http.ErrAbortHandler:
		panic(reason)
	default:
		h.proxy.opts.ErrorLog.Printf("panic in the proxy's RoundTripper, serving %s %s: %v\n%s",
			r.Method, r.URL.Path, reason, debug.Stack())
		panic(http.ErrAbortHandler)
	}
}

// bufferBody reads the request's body into memory, so that it can be read repeatedly. A body that is too long, or of
// unknown length and so perhaps endless, stays a stream.
func bufferBody(r *http.Request) error {
	if r.ContentLength <= 0 || r.ContentLength > replayable {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// newForwarder sends requests to the transport and its responses to the clients.
func newForwarder(base *url.URL, next http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy would remove parameters that it cannot parse
			r.Out.Header.Del("Authorization")      // otherwise the target's own would not be used
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Del("Expect") // the client already got 100 Continue
			intercept.AskForJSON(r.Out.Header)
		},
		Transport:     &errorMarker{next: next},
		FlushInterval: -1, // each frame of a watch at once
		ErrorHandler:  handleError,
		// A copy that ends early is a disconnected client or server, or an injected fault.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// errorMarker marks the RoundTripper's errors, to distinguish them from those of ReverseProxy.
type errorMarker struct{ next http.RoundTripper }

type roundTripError struct{ error }

// RoundTrip completes a generated response.
func (f *errorMarker) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil {
		return nil, roundTripError{err}
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	return resp, nil
}

// handleError breaks the client's connection after an error of the RoundTripper. The other errors are about upgrades
// that cannot be forwarded.
func handleError(w http.ResponseWriter, r *http.Request, err error) {
	if _, broken := err.(roundTripError); broken { //nolint:errorlint // failing returns it unwrapped
		panic(http.ErrAbortHandler)
	}
	reject(w, http.StatusBadGateway, metav1.StatusReasonInternalError,
		fmt.Sprintf("testkit's proxy cannot pass on the upgrade to %q: %v", r.Header.Get("Upgrade"), err))
}

// reject responds as the API server would, so that every client library can show the message.
func reject(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: reason, Code: code,
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_, _ = w.Write(body) // a disconnected client needs no response
}
