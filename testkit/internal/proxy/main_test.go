package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{RBAC: "testdata/rbac.yaml"}) }

// shortTimeout bounds an immediate effect on a busy machine.
const shortTimeout = 20 * time.Second

// protocols lists the versions of HTTP that clients use.
var protocols = []string{"http/1.1", "h2"}

// A roundTrip is a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// stub returns a Wrap that never forwards to the API server.
func stub(f roundTrip) func(http.RoundTripper) http.RoundTripper {
	return func(http.RoundTripper) http.RoundTripper { return f }
}

func start(t testing.TB, opts proxy.Options) *proxy.Proxy {
	t.Helper()
	if opts.Target == nil {
		opts.Target = &rest.Config{Host: "https://127.0.0.1:1"} // no server listens there
	}
	p, err := proxy.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func config(t testing.TB, p *proxy.Proxy, user string) *rest.Config {
	t.Helper()
	cfg, err := p.Config(user)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// newClient returns a client that uses one version of HTTP and has the user's token. It does not decompress.
func newClient(t testing.TB, p *proxy.Proxy, user, protocol string) *http.Client {
	t.Helper()
	cfg := config(t, p, user)
	cfg.NextProtos = []string{protocol}
	cfg.DisableCompression = true
	cfg.Proxy = http.ProxyFromEnvironment // connections of its own
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: transport}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(ctx context.Context, t testing.TB, p *proxy.Proxy, path string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config(t, p, "operator").Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// server starts an API server that consists of one function. It supports HTTP/1.1 and 2.
func server(t testing.TB, f http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, BearerToken: "the target's", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func respond(req *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}
}

// await returns when the channel is closed.
func await(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(shortTimeout):
		t.Fatalf("waiting for %s: not within %v", what, shortTimeout)
	}
}

func tlsConfig(cfg *rest.Config) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cfg.CAData)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}
