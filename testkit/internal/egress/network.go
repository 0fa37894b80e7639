package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// Forward connects the clients of a listener with a server until ctx ends, and closes the listener then.
func Forward(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) {
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go forward(ctx, client, dial)
			}
		}
	}()
}

func forward(ctx context.Context, client net.Conn, dial func(context.Context) (net.Conn, error)) {
	defer func() { _ = client.Close() }()
	server, err := dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	relay(client, server)
}

// dialNetwork connects to an address in the network of the nodes: its hub is an HTTP proxy. Addresses of this machine, and
// all addresses without such a network, are dialed directly.
func (p *proxy) dialNetwork(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(host)
	if p.hub == "" || err != nil || ip.IsLoopback() {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	return realnode.Hub{Socket: p.hub}.Dial(ctx, address)
}

// endpoint returns the address of a ready pod for a port of a Service.
func (p *proxy) endpoint(ctx context.Context, service *corev1.Service, port string) (string, error) {
	slices, err := p.client.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name,
	})
	if err != nil {
		return "", err
	}
	name := ""
	for _, candidate := range service.Spec.Ports {
		if strconv.Itoa(int(candidate.Port)) == port {
			name = candidate.Name
		}
	}
	for i := range slices.Items {
		if address := readyEndpoint(&slices.Items[i], name); address != "" {
			return address, nil
		}
	}
	return "", nil
}

// readyEndpoint returns an address of a slice with a port of this name, or "".
func readyEndpoint(slice *discoveryv1.EndpointSlice, name string) string {
	for _, port := range slice.Ports {
		if port.Port == nil || port.Name == nil || *port.Name != name {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; (ready == nil || *ready) && len(endpoint.Addresses) > 0 {
				return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
			}
		}
	}
	return ""
}
