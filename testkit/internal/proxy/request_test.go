package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

// seen is the request that a server got.
type seen struct {
	Method, URI, Host string
	Header            http.Header
	Body              string
	Length            int64
}

func TestRequestIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	requests := make(chan seen, 1)
	target := server(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- seen{r.Method, r.RequestURI, r.Host, r.Header, string(body), r.ContentLength}
	})
	base := target.Host
	target.Host += "/k8s/clusters/c-1"
	p := start(t, proxy.Options{Target: target})
	for _, protocol := range protocols {
		c := newClient(t, p, "operator", protocol)
		tests := map[string]struct {
			reason string
			body   io.Reader
			length int64
		}{
			"Known":   {"a known length is forwarded", strings.NewReader("a body"), 6},
			"Chunked": {"an unknown length stays unknown", io.LimitReader(strings.NewReader("a body"), 100), -1},
		}
		for name, tt := range tests {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				config(t, p, "operator").Host+"/apis/a%2Fb?x=1;2&labelSelector=a%3Db", tt.body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{
				"Accept": {"application/yaml"}, "Accept-Encoding": {"gzip"}, "Content-Type": {"text/x"}, "User-Agent": {"mine"},
				"Impersonate-User": {"jane"}, "Impersonate-Group": {"a", "b"}, "X-Forwarded-For": {"client"},
				"Expect": {"100-continue"},
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = read(t, resp)
			got := <-requests
			got.Header.Del("Content-Length")
			want := seen{
				Method: http.MethodPost, URI: "/k8s/clusters/c-1/apis/a%2Fb?x=1;2&labelSelector=a%3Db",
				Host: strings.TrimPrefix(base, "https://"), Body: "a body", Length: tt.length,
				Header: http.Header{
					"Accept": {"application/yaml"}, "Content-Type": {"text/x"}, "User-Agent": {"mine"},
					"Impersonate-User": {"jane"}, "Impersonate-Group": {"a", "b"}, "Authorization": {"Bearer the target's"},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got), because %s:\n%s", protocol, name, tt.reason, diff)
			}
		}
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	const openAPI = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	tests := map[string]struct{ reason, accept, want string }{
		"Protobuf": {
			"the order of what is left does not change",
			"application/vnd.kubernetes.protobuf,application/json", "application/json,application/json",
		},
		"ProtobufAlone": {
			"a client that asks for it decodes what it gets", "application/vnd.kubernetes.protobuf", "application/json",
		},
		"Watch": {
			"the parameters stay", "application/vnd.kubernetes.protobuf;stream=watch", "application/json;stream=watch",
		},
		"Metadata": {
			"a metadata client asks for a part of the object",
			"application/vnd.kubernetes.protobuf; as=PartialObjectMetadataList;g=meta.k8s.io;v=v1 , application/json",
			"application/json; as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
		},
		"CBOR": {
			"it is as unreadable",
			"Application/CBOR, application/cbor-seq;q=0.5", "application/json,application/json;q=0.5",
		},
		"Anything": {"the server's choice is JSON", "*/*", "*/*"},
		"OpenAPI":  {"its clients cannot read anything else", openAPI, openAPI},
		"Nothing":  {"the server's choice is JSON", "", ""},
	}
	for name, tt := range tests {
		got := "nothing came"
		p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
			got = req.Header.Get("Accept")
			return respond(req, http.StatusOK, ""), nil
		})})
		req := get(t.Context(), t, p, "/")
		if tt.accept != "" {
			req.Header.Set("Accept", tt.accept)
		}
		resp, err := newClient(t, p, "operator", "http/1.1").Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = read(t, resp)
		if got != tt.want {
			t.Errorf("%s: got %q, want %q, because %s", name, got, tt.want, tt.reason)
		}
	}
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// TestBodyCanBeReadAgain checks that a RoundTripper may read a body and still send it, as in the operator's own
// process.
func TestBodyCanBeReadAgain(t *testing.T) {
	t.Parallel()
	sums := make(chan string, 1)
	target := server(t, func(_ http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		if _, err := io.Copy(hash, r.Body); err != nil {
			t.Error(err)
		}
		sums <- hex.EncodeToString(hash.Sum(nil))
	})
	tests := map[string]struct {
		reason     string
		size       int
		replayable bool
	}{
		"Small": {"it is an object", 100, true},
		"Large": {"it is larger than any object, and memory is limited", 6 << 20, false},
	}
	for name, tt := range tests {
		var replayable bool
		var early string
		p := start(t, proxy.Options{Target: target, Wrap: func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				if replayable = req.GetBody != nil; replayable {
					body, err := req.GetBody()
					if err != nil {
						return nil, err
					}
					data, err := io.ReadAll(body)
					if err != nil {
						return nil, err
					}
					early = sum(data)
				}
				return next.RoundTrip(req)
			})
		}})
		data := bytes.Repeat([]byte("homeostat"), tt.size/9)
		want := sum(data)
		for _, protocol := range protocols {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				config(t, p, "operator").Host, bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := newClient(t, p, "operator", protocol).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = read(t, resp)
			if got := <-sums; got != want {
				t.Errorf("%s: the server got something else", name)
			}
			if replayable != tt.replayable || replayable && early != want {
				t.Errorf("%s: readable twice: %v, want %v, because %s", name, replayable, tt.replayable, tt.reason)
			}
		}
	}
}
