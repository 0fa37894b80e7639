package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// Dial connects to an address in the network of the nodes.
func (h Hub) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", h.Socket)
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
