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

// replayable is up to which size a request's body is held in memory. The API server accepts no more than 3 MiB.
const replayable = 4 << 20

// handler lets known users' requests through.
type handler struct {
	proxy   *Proxy
	forward http.Handler
}

// ServeHTTP ends by panicking with http.ErrAbortHandler where the client is to see its connection broken.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u, known := h.proxy.begin(bearer(r))
	if !known {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized,
			"testkit's proxy does not know this token: use the kubeconfig that was written for this run")
		return
	}
	defer u.requests.Done()
	defer h.report(r)
	if h.proxy.upstream.impersonates && r.Header.Get(transport.ImpersonateUserHeader) != "" {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden,
			"testkit's proxy cannot impersonate for a client, because it is impersonating the operator's user itself: "+
				"give it a token of that user as its target")
		return
	}
	ctx, cancel := u.join(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	if err := hold(r); err != nil {
		panic(http.ErrAbortHandler) // the client has gone away
	}
	// Without these the server would make up a type and a date where the response has none.
	w.Header()["Content-Type"], w.Header()["Date"] = nil, nil
	h.forward.ServeHTTP(&ending{ResponseWriter: w, ctx: ctx}, r)
}

// ending ends a connection that is taken over with the request's context. ReverseProxy ends the server's side alone,
// and waits for the client to notice.
type ending struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request
}

// Hijack hands over the connection, which the context may still close.
func (e *ending) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(e.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	}
	return conn, rw, err
}

// Unwrap gives access to the other optional methods.
func (e *ending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// report logs a panic of the RoundTripper, which the HTTP server would hide.
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

// hold reads the request's body so that it can be read again and again. What is too long, or of unknown length and
// so perhaps endless, stays a stream.
func hold(r *http.Request) error {
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

// newForwarder hands requests to the transport and its responses to the clients.
func newForwarder(base *url.URL, next http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy would leave out what it cannot parse
			r.Out.Header.Del("Authorization")      // or the target's own would not be used
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Del("Expect") // the client has been told to continue
			intercept.AskForJSON(r.Out.Header)
		},
		Transport:     &failing{next: next},
		FlushInterval: -1, // each frame of a watch at once
		ErrorHandler:  answerError,
		// A copy that ends early is a client or a server that went away, or a fault on purpose.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// failing tells the RoundTripper's errors from those of ReverseProxy.
type failing struct{ next http.RoundTripper }

type roundTripError struct{ error }

// RoundTrip fills in what a made-up response may lack.
func (f *failing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil {
		return nil, roundTripError{err}
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	return resp, nil
}

// answerError breaks the client's connection where the RoundTripper returned an error. The other errors are about
// upgrades that cannot be passed on.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if _, broken := err.(roundTripError); broken { //nolint:errorlint // it comes from failing as it is
		panic(http.ErrAbortHandler)
	}
	refuse(w, http.StatusBadGateway, metav1.StatusReasonInternalError,
		fmt.Sprintf("testkit's proxy cannot pass on the upgrade to %q: %v", r.Header.Get("Upgrade"), err))
}

// refuse answers as the API server would, so that every client library can show the message.
func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: reason, Code: code,
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_, _ = w.Write(body) // a client that has gone needs no answer
}
