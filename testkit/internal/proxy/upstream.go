package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// dialTimeout is client-go's own.
const dialTimeout = 30 * time.Second

// upstream sends requests to the API server with the identity of the target.
type upstream struct {
	base         *url.URL
	impersonates bool
	ordinary     http.RoundTripper
	// upgrades uses HTTP/1.1 only, because an HTTP/2 connection cannot be hijacked.
	upgrades http.RoundTripper

	dialer *connrotation.Dialer
	closed atomic.Bool
}

func newUpstream(target *rest.Config) (*upstream, error) {
	target = rest.CopyConfig(target)
	target.DisableCompression = true
	base, _, err := rest.DefaultServerUrlFor(target)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	dial := target.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if target.Proxy == nil {
		// It is the default. Setting it keeps client-go from caching the transports of every proxy.
		target.Proxy = http.ProxyFromEnvironment
	}
	u := &upstream{base: base, impersonates: target.Impersonate.UserName != "", dialer: connrotation.NewDialer(dial)}
	target.Dial = u.dial
	if u.ordinary, err = rest.TransportFor(target); err == nil {
		target.NextProtos = []string{"http/1.1"}
		u.upgrades, err = rest.TransportFor(target)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing connections to the API server: %w", err)
	}
	return u, nil
}

// RoundTrip sends the request as the target.
func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Upgrade") != "" {
		return u.upgrades.RoundTrip(req)
	}
	return u.ordinary.RoundTrip(req)
}

// dial tracks connections, so that close can end them: an HTTP/2 connection is not idle for a moment after its last
// request was canceled, and the transport would keep it.
func (u *upstream) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := u.dialer.DialContext(ctx, network, address)
	if err == nil && u.closed.Load() {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return conn, err
}

func (u *upstream) close() {
	u.closed.Store(true)
	u.dialer.CloseAll()
}
