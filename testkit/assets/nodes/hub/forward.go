//go:build linux

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// forwardAPIServer serves the API server at its port in the network of the nodes.
func (h *hub) forwardAPIServer() error {
	listener, err := net.Listen("tcp", net.JoinHostPort(spec.HubAddress, strconv.Itoa(h.APIServerPort)))
	if err != nil {
		return fmt.Errorf("serving the API server to the nodes: %w", err)
	}
	go forward(listener, func() (net.Conn, error) {
		return new(net.Dialer).DialContext(context.Background(), "unix", h.APIServer)
	})
	return nil
}

// forward connects each client with a server.
func forward(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client has gone
		}
		go func() {
			defer func() { _ = client.Close() }()
			server, err := dial()
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			relay(client, server)
		}()
	}
}

// relay copies in both directions until one side closes its connection.
func relay(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = a.Close()
			_ = b.Close()
		})
	}
	both.Wait()
}
