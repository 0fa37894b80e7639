//go:build linux

package node

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// Interface is the name of the node's network interface. The hub moves it into the node's network namespace before it sends
// the configuration.
const Interface = "eth0"

// connect configures the network of the node.
func (n *node) connect() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	eth, err := netlink.LinkByName(Interface)
	if err != nil {
		return fmt.Errorf("finding %s: %w", Interface, err)
	}
	addr, err := netlink.ParseAddr(spec.NodeAddress(n.Index).String() + "/16")
	if err != nil {
		return fmt.Errorf("parsing the address of the node: %w", err)
	}
	if err := netlink.AddrAdd(eth, addr); err != nil {
		return fmt.Errorf("giving the node its address: %w", err)
	}
	if err := netlink.LinkSetUp(eth); err != nil {
		return fmt.Errorf("starting %s: %w", Interface, err)
	}
	return AddPodRoutes(eth, n.Index)
}
