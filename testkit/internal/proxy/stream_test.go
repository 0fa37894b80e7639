package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

// TestFramesAreForwardedImmediately checks that each frame arrives before the next one is sent, and the headers before the
// first one.
func TestFramesAreForwardedImmediately(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			frames := make(chan string)
			ended := make(chan struct{})
			target := server(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				flush(w)
				for {
					select {
					case frame := <-frames:
						_, _ = io.WriteString(w, frame)
						flush(w)
					case <-r.Context().Done():
						return
					}
				}
			})
			p := start(t, proxy.Options{Target: target})
			ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
			defer cancel()
			resp, err := newClient(t, p, "operator", protocol).Do(get(ctx, t, p, "/?watch=1"))
			if err != nil {
				t.Fatalf("the headers: %v", err)
			}
			defer func() { _ = resp.Body.Close() }()
			reader := bufio.NewReader(resp.Body)
			for i := range 100 {
				want := fmt.Sprintf("{%q: %d}\n", "frame", i)
				frames <- want
				if got, err := reader.ReadString('\n'); err != nil || got != want {
					t.Fatalf("frame %d is %q, %v", i, got, err)
				}
			}
			cancel() // as a client that stops watching does
			await(t, "the end of the request to the API server", ended)
		})
	}
}

// flush sends the buffered bytes. Errors of disconnected clients are ignored: the tests check the client side.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func TestClientDisconnectCancelsRequest(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(protocol+"/"+method, func(t *testing.T) {
				t.Parallel()
				entered, left := make(chan struct{}), make(chan struct{})
				p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
					close(entered)
					<-req.Context().Done()
					close(left)
					return nil, req.Context().Err()
				})})
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, method, config(t, p, "operator").Host, strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					<-entered
					cancel()
				}()
				if resp, err := newClient(t, p, "operator", protocol).Do(req); err == nil {
					t.Errorf("it got a response: %s", read(t, resp))
				}
				await(t, "the end of the request to the API server", left)
			})
		}
	}
}

// echoServer switches to a protocol that echoes its input.
func echoServer(t *testing.T) *rest.Config {
	t.Helper()
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			http.Error(w, "HTTP/2 has no upgrades", http.StatusHTTPVersionNotSupported)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			r.Header.Get("Upgrade"))
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	})
}

// upgrade requests a change of protocol, as a client of exec does, and returns the connection and the response.
func upgrade(t *testing.T, p *proxy.Proxy, path, protocol string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	cfg := config(t, p, "operator")
	dialer := &tls.Dialer{Config: tlsConfig(cfg)}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(shortTimeout)); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\n"+
		"Upgrade: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		path, cfg.BearerToken, protocol)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return conn, reader, resp.Status + " " + read(t, resp)
	}
	return conn, reader, resp.Status
}

// TestUpgrade checks the protocol of exec, attach and port-forward.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	p := start(t, proxy.Options{Target: echoServer(t)})
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		conn, reader, status := upgrade(t, p, "/exec", protocol)
		if status != "101 Switching Protocols" {
			t.Fatalf("%s: %s", protocol, status)
		}
		for i := range 10 {
			want := fmt.Sprintf("%s %d\n", protocol, i)
			_, _ = io.WriteString(conn, want)
			if got, err := reader.ReadString('\n'); err != nil || got != want {
				t.Fatalf("%s: got %q, %v", protocol, got, err)
			}
		}
	}
}

func TestUpgradeWithInvalidBody(t *testing.T) {
	t.Parallel()
	p := start(t, proxy.Options{Target: echoServer(t), Wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil {
				resp.Body = struct{ io.ReadCloser }{resp.Body}
			}
			return resp, err
		})
	}})
	_, _, status := upgrade(t, p, "/exec", "SPDY/3.1")
	for _, want := range []string{"502", `testkit's proxy cannot pass on the upgrade to \"SPDY/3.1\"`, "non-writable"} {
		if !strings.Contains(status, want) {
			t.Errorf("%s lacks %q", status, want)
		}
	}
}

// TestClose checks that all requests end at once with the proxy, and that nothing is left.
func TestClose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		end    func(p *proxy.Proxy, cancel context.CancelFunc)
	}{
		"Close":   {"its owner is done", func(p *proxy.Proxy, _ context.CancelFunc) { p.Close() }},
		"Context": {"its owner's context is done", func(_ *proxy.Proxy, cancel context.CancelFunc) { cancel() }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, len(protocols))
			target := server(t, func(w http.ResponseWriter, r *http.Request) {
				flush(w)
				<-r.Context().Done()
				ended <- struct{}{}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, err := proxy.Start(ctx, proxy.Options{Target: target})
			if err != nil {
				t.Fatal(err)
			}
			broken := make(chan error)
			for _, protocol := range protocols {
				resp, err := newClient(t, p, "operator", protocol).Do(get(t.Context(), t, p, "/"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				go func() {
					_, err := io.Copy(io.Discard, resp.Body)
					broken <- err
				}()
			}
			late, request := newClient(t, p, "operator", "h2"), get(t.Context(), t, p, "/")
			tt.end(p, cancel)
			for range protocols {
				select {
				case err := <-broken:
					if err == nil {
						t.Errorf("a stream ended as if it were complete, although %s", tt.reason)
					}
				case <-time.After(shortTimeout):
					t.Fatalf("a stream goes on, although %s", tt.reason)
				}
			}
			for range protocols {
				select {
				case <-ended:
				case <-time.After(shortTimeout):
					t.Fatal("a request to the API server goes on")
				}
			}
			p.Close() // again
			if resp, err := late.Do(request); err == nil {
				_ = resp.Body.Close()
				t.Error("the port is still open")
			}
		})
	}
}

// TestCloseEndsUpgrades checks that an upgraded connection ends without any action of its client.
func TestCloseEndsUpgrades(t *testing.T) {
	t.Parallel()
	for range 20 {
		p := start(t, proxy.Options{Target: echoServer(t)})
		_, reader, status := upgrade(t, p, "/exec", "SPDY/3.1")
		if status != "101 Switching Protocols" {
			t.Fatal(status)
		}
		p.Close()
		if _, err := reader.ReadByte(); err == nil {
			t.Error("there is something to read")
		}
	}
}

// TestConnectionsAreNotShared checks that each proxy has connections of its own, so that faults do not affect another
// one.
func TestConnectionsAreNotShared(t *testing.T) {
	t.Parallel()
	target := server(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	var peers []string
	for range 2 {
		p := start(t, proxy.Options{Target: target})
		for range 2 {
			resp, err := newClient(t, p, "operator", "h2").Do(get(t.Context(), t, p, "/"))
			if err != nil {
				t.Fatal(err)
			}
			peers = append(peers, read(t, resp))
		}
	}
	if peers[0] != peers[1] || peers[1] == peers[2] || peers[2] != peers[3] {
		t.Errorf("the connections of two proxies, with two requests each, come from %q", peers)
	}
}

// TestNoGoroutineLeak counts goroutines, because a run of thousands of plans starts as many proxies in one process.
// It is therefore not parallel.
func TestNoGoroutineLeak(t *testing.T) {
	target := server(t, func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		<-r.Context().Done()
	})
	before := runtime.NumGoroutine()
	var clients []*http.Client
	for range 20 {
		p, err := proxy.Start(t.Context(), proxy.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		for _, protocol := range protocols {
			c := newClient(t, p, "operator", protocol)
			clients = append(clients, c)
			resp, err := c.Do(get(t.Context(), t, p, "/"))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		p.Close()
	}
	gone := func(context.Context) (bool, error) {
		for _, c := range clients {
			c.CloseIdleConnections() // a connection may take a moment to become idle
		}
		return runtime.NumGoroutine() <= before, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, shortTimeout, true, gone); err != nil {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("%d goroutines before and %d after it:\n%s", before, runtime.NumGoroutine(), stacks.String())
	}
}
