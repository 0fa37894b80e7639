//go:build linux

package node

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// AddPodRoutes adds routes to the pods of all nodes but one, through an interface of the network of the nodes.
func AddPodRoutes(link netlink.Link, except int) error {
	for i := range spec.MaxNodes {
		if i == except {
			continue
		}
		_, pods, err := net.ParseCIDR(spec.PodRange(i))
		if err != nil {
			return fmt.Errorf("parsing the addresses of pods: %w", err)
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: pods, Gw: spec.NodeAddress(i).AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("adding the route to the pods of node %d: %w", i, err)
		}
	}
	return nil
}
