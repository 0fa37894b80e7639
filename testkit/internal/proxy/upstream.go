package proxy

import (
	"fmt"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// upstream sends requests to the API server with the identity of the target.
type upstream struct {
	base         *url.URL
	impersonates bool
	ordinary     http.RoundTripper
	// upgrades speaks HTTP/1.1 alone, because a connection cannot be taken over in HTTP/2.
	upgrades http.RoundTripper
}

func newUpstream(target *rest.Config) (*upstream, error) {
	target = rest.CopyConfig(target)
	target.DisableCompression = true
	if target.Proxy == nil {
		// It is the default, but naming it keeps client-go from sharing connections with others, so that close can
		// end them.
		target.Proxy = http.ProxyFromEnvironment
	}
	base, _, err := rest.DefaultServerUrlFor(target)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	u := &upstream{base: base, impersonates: target.Impersonate.UserName != ""}
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

func (u *upstream) close() {
	utilnet.CloseIdleConnectionsFor(u.ordinary)
	utilnet.CloseIdleConnectionsFor(u.upgrades)
}
