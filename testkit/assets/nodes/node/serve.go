//go:build linux

package node

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

// serve serves the socket of the node.
func (n *node) serve() error {
	if err := os.Remove(n.socket()); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("serving the node: %w", err)
	}
	listener, err := net.Listen("unix", n.socket())
	if err != nil {
		return fmt.Errorf("serving the node: %w", err)
	}
	mux := http.NewServeMux()
	return http.Serve(listener, mux)
}
