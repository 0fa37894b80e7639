//go:build linux

package hub

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// startDNS starts the server for the names of Services and pods. It knows no other names.
func (h *hub) startDNS() error {
	file := filepath.Join(h.Dir, "Corefile")
	text := fmt.Sprintf(`.:53 {
	bind %s
	errors
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %s
		pods insecure
		ttl 1
	}
	loadbalance
}
`, spec.HubAddress, h.Kubeconfig)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the configuration of the DNS server: %w", err)
	}
	child, err := h.init.Start(system.Command{
		Args: []string{filepath.Join(h.Programs, "coredns"), "-conf", file}, Log: h.Log("coredns"),
	})
	if err != nil {
		return err
	}
	go func() {
		<-child.Done()
		fmt.Fprintf(os.Stderr, "the DNS server ended: %v\n", child.Err())
		os.Exit(1)
	}()
	return nil
}
