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

// The client must not be able to take a fault for an answer of the server.
func TestErrorBreaksTheConnection(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := start(t, proxy.Options{Wrap: instead(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/fail" {
					return nil, errInjected
				}
				return respond(req, http.StatusOK, "fine"), nil
			})})
			c := newClient(t, p, "operator", protocol)
			for range 3 {
				resp, err := c.Do(get(t.Context(), t, p, "/fail"))
				if err == nil {
					t.Errorf("the client got the answer %s: %s", resp.Status, read(t, resp))
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

// A body that ends with an error is a connection that breaks in the middle of it.
func TestErrorInTheBodyBreaksTheConnection(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := start(t, proxy.Options{Wrap: instead(func(req *http.Request) (*http.Response, error) {
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

func TestResponseIsHandedOnAsItIs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		code   int
		header http.Header
		body   io.Reader // nil is no body at all
	}{
		"Refusal": {
			reason: "what an injected 429 says has to arrive", code: http.StatusTooManyRequests,
			header: http.Header{"Retry-After": {"7"}, "Content-Type": {"application/json"}},
			body:   strings.NewReader(`{"kind":"Status"}`),
		},
		"Unusual": {
			reason: "the proxy has no opinion of codes", code: 599,
			header: http.Header{"X-Two": {"a", "b"}}, body: strings.NewReader("<html>"),
		},
		"Empty": {reason: "a response may be made up of a code alone", code: http.StatusGone},
		"Zipped": {
			reason: "what is compressed stays so", code: http.StatusOK,
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
				p := start(t, proxy.Options{Wrap: instead(func(req *http.Request) (*http.Response, error) {
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
				resp.Header.Del("Content-Length") // of a short body; it says nothing that is not so
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

// The HTTP server would hide it.
func TestPanicOfTheRoundTripperIsLogged(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	p := start(t, proxy.Options{
		ErrorLog: log.New(&output, "", 0), Wrap: instead(func(*http.Request) (*http.Response, error) { panic("a mistake") }),
	})
	resp, err := newClient(t, p, "operator", "http/1.1").Do(get(t.Context(), t, p, "/where"))
	if err == nil {
		t.Errorf("the client got %s", read(t, resp))
	}
	p.Close() // what was logged before can be read
	for _, want := range []string{"GET /where", "a mistake", "proxy_test.go"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, output.String())
		}
	}
}
