package v0

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// A network replaces the cluster's DNS and Services for OLM, which runs outside the cluster: it connects to names. It
// implements SOCKS 5 (RFC 1928), as far as needed for connections to names without authentication.
type network struct {
	listener net.Listener

	mu    sync.Mutex
	names map[string]string // from a name to an address, both as host:port
}

func newNetwork(ctx context.Context) (*network, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening as the network of the cluster: %w", err)
	}
	n := &network{listener: listener, names: map[string]string{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = n.connect(ctx, conn)
			}()
		}
	}()
	return n, nil
}

func (n *network) proxy() string { return "socks5://" + n.listener.Addr().String() }

func (n *network) close() { _ = n.listener.Close() }

// route connects a name to an address, both as host:port.
func (n *network) route(name, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = address
}

func (n *network) connect(ctx context.Context, conn net.Conn) error {
	var greeting [2]byte
	if _, err := io.ReadFull(conn, greeting[:]); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, conn, int64(greeting[1])); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{5, 0}); err != nil {
		return err
	}
	var head [5]byte // version, CONNECT, reserved, a name, its length
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if !bytes.Equal(head[:4], []byte{5, 1, 0, 3}) {
		return errors.New("this is no connection to a name")
	}
	rest := make([]byte, int(head[4])+2)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return err
	}
	port := strconv.Itoa(int(binary.BigEndian.Uint16(rest[head[4]:])))
	n.mu.Lock()
	address := n.names[net.JoinHostPort(string(rest[:head[4]]), port)]
	n.mu.Unlock()
	answer := []byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if address == "" || err != nil {
		answer[1] = 4 // host unreachable
		_, err := conn.Write(answer)
		return err
	}
	defer func() { _ = to.Close() }()
	if _, err := conn.Write(answer); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	}()
	_, err = io.Copy(conn, to)
	return err
}
