//go:build linux

package hub

import (
	"fmt"
	"os"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// writeDNS writes the configuration of the server for the names of Services and pods. It knows no other names.
func (h *hub) writeDNS(file string) error {
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
	return nil
}
