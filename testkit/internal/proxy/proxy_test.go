package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

var errInjected = errors.New("injected")

// TestErrorBreaksTheConnection checks that a client cannot mistake an injected error for a response of the server.
func TestErrorBreaksTheConnection(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/fail" {
					return nil, errInjected
				}
				return respond(req, http.StatusOK, "fine"), nil
			})})
			c := newClient(t, p, "operator", protocol)
			for range 3 {
				resp, err := c.Do(get(t.Context(), t, p, "/fail"))
				if err == nil {
					t.Errorf("the client got the response %s: %s", resp.Status, read(t, resp))
				}
				resp, err = c.Do(get(t.Context(), t, p, "/other"))
				if err != nil {
					t.Fatalf("the next request: %v", err)
				}
				if got := read(t, resp); got != "fine" {
					t.Errorf("the next request got %q", got)
				}
			}
		})
	}
}

// TestErrorInTheBodyBreaksTheConnection checks that a body that ends with an error breaks the connection.
func TestErrorInTheBodyBreaksTheConnection(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
				resp := respond(req, http.StatusOK, "")
				reader, writer := io.Pipe()
				go func() {
					_, _ = io.WriteString(writer, "half of it")
					writer.CloseWithError(errInjected)
				}()
				resp.Body = reader
				return resp, nil
			})})
			resp, err := newClient(t, p, "operator", protocol).Do(get(t.Context(), t, p, "/"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			data, err := io.ReadAll(resp.Body)
			if err == nil || string(data) != "half of it" {
				t.Errorf("read %q, %v; want half of it and an error", data, err)
			}
		})
	}
}

func TestResponseIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		code   int
		header http.Header
		body   io.Reader // nil is no body at all
	}{
		"Refusal": {
			reason: "the content of an injected 429 has to arrive", code: http.StatusTooManyRequests,
			header: http.Header{"Retry-After": {"7"}, "Content-Type": {"application/json"}},
			body:   strings.NewReader(`{"kind":"Status"}`),
		},
		"Unusual": {
			reason: "the proxy forwards any code", code: 599,
			header: http.Header{"X-Two": {"a", "b"}}, body: strings.NewReader("<html>"),
		},
		"Empty": {reason: "a response may consist of a code only", code: http.StatusGone},
		"Zipped": {
			reason: "a compressed body stays compressed", code: http.StatusOK,
			header: http.Header{"Content-Encoding": {"gzip"}}, body: strings.NewReader("\x1f\x8b and so on"),
		},
	}
	for name, tt := range tests {
		var want []byte
		made := func(req *http.Request) *http.Response {
			return &http.Response{StatusCode: tt.code, Header: tt.header.Clone(), Request: req}
		}
		if tt.body != nil {
			var err error
			if want, err = io.ReadAll(tt.body); err != nil {
				t.Fatal(err)
			}
		}
		for _, protocol := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
					resp := made(req)
					if tt.body != nil {
						resp.Body = io.NopCloser(bytes.NewReader(want))
					}
					return resp, nil
				})})
				resp, err := newClient(t, p, "operator", protocol).Do(get(t.Context(), t, p, "/"))
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != string(want) || resp.StatusCode != tt.code {
					t.Errorf("got %d %q, want %d %q, because %s", resp.StatusCode, got, tt.code, want, tt.reason)
				}
				resp.Header.Del("Content-Length") // of a short body; the rest of the headers stays true
				if diff := cmp.Diff(tt.header, resp.Header, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("headers (-want +got), because %s:\n%s", tt.reason, diff)
				}
			})
		}
	}
}

func TestBadTarget(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]*rest.Config{
		"Address":   {Host: "http://a b"},
		"Authority": {Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}},
	} {
		if _, err := proxy.Start(t.Context(), proxy.Options{Target: cfg}); err == nil {
			t.Errorf("%s: it started", name)
		}
	}
}

// TestPanicOfTheRoundTripperIsLogged checks the log, because the HTTP server would suppress the panic.
func TestPanicOfTheRoundTripperIsLogged(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	p := start(t, proxy.Options{
		ErrorLog: log.New(&output, "", 0), Wrap: stub(func(*http.Request) (*http.Response, error) { panic("a mistake") }),
	})
	resp, err := newClient(t, p, "operator", "http/1.1").Do(get(t.Context(), t, p, "/where"))
	if err == nil {
		t.Errorf("the client got %s", read(t, resp))
	}
	p.Close() // now the log can be read
	for _, want := range []string{"GET /where", "a mistake", "proxy_test.go"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, output.String())
		}
	}
}
