package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forward serves a unix socket whose connections reach an address of this machine, until ctx ends.
func Forward(ctx context.Context, socket, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("serving %s at a socket: %w", address, err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go forward(ctx, client, address)
			}
		}
	}()
	return nil
}

func forward(ctx context.Context, client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.hub)
	if err != nil {
		return nil, fmt.Errorf("connecting to the network of the nodes: %w", err)
	}
	connected, err := requestConnection(ctx, conn, address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return connected, nil
}

// requestConnection asks a proxy for a connection to an address.
func requestConnection(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil) //nolint:bodyclose // the body is the connection
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("connecting to %s: %s", address, response.Status)
	}
	return &bufferedConn{Conn: conn, reader: reader}, nil
}

// bufferedConn is a connection of which something was read.
type bufferedConn struct {
	net.Conn

	reader *bufio.Reader
}

// Read implements [net.Conn].
func (c *bufferedConn) Read(data []byte) (int, error) { return c.reader.Read(data) }

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
