package sandbox

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
)

// Each loopback address is that of a port of the Ingress controller in the network of the nodes, until the sandbox stops.
func TestIngressAddresses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hub, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, spec.ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	// The connection that the hub returns has a server that responds with the address that was asked for.
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"+r.Method+" "+r.Host)
		if err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}))
	server.Listener = hub
	server.Start()
	defer server.Close()

	s := &Sandbox{lease: &environment.Lease{Dir: dir}, opts: Options{Real: &RealNodes{Ingress: true}}}
	if err := s.serveIngress(); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		s.Ingress().HTTP: "CONNECT " + spec.IngressHTTP, s.Ingress().HTTPS: "CONNECT " + spec.IngressHTTPS,
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", address, got, err, want)
		}
		_ = conn.Close()
	}
	s.ingress.close()
	for _, address := range []string{s.Ingress().HTTP, s.Ingress().HTTPS} {
		waitClosed(t, address)
	}
}

// waitClosed waits until no process listens at an address: the listener is closed in another goroutine.
func waitClosed(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Errorf("%s is open after the end", address)
}
