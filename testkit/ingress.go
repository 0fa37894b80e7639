package testkit

import (
	"context"
	"net"
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// IngressTransport returns a transport for clients outside of the cluster. All its requests reach the Ingress controller of
// RealNodes.Ingress, as if their hosts were names of its address: http at port 80, https at port 443. The caller sets
// TLSClientConfig if the authority of a certificate is not one of the machine. The controller knows a change of an Ingress
// or of its Service after a second or two. Until then it responds with status 404 or as before.
func (k *K) IngressTransport() *http.Transport {
	k.t.Helper()
	if k.conn.existing || k.conn.env.Real == nil || !k.conn.env.Real.Ingress {
		k.t.Fatal("an Ingress controller is needed: set Env.Real with Ingress")
	}
	hub := k.hub()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return hub.Dial(ctx, net.JoinHostPort(spec.HubAddress, port))
	}}
	k.t.Cleanup(transport.CloseIdleConnections)
	return transport
}
