//go:build linux

package hub

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/node"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// A network is the bridge that connects the nodes with each other and with the hub.
type network struct {
	bridge netlink.Link
}

func newNetwork() (*network, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("finding the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, fmt.Errorf("starting the loopback interface: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = "nodes"
	bridge.HardwareAddr = hardwareAddress(hubIndex) // or it would change with the ports, and nodes would not reach the hub
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("making the bridge of the nodes: %w", err)
	}
	addr, err := netlink.ParseAddr(spec.HubAddress + "/16")
	if err != nil {
		return nil, fmt.Errorf("parsing the address of the hub: %w", err)
	}
	if err := netlink.AddrAdd(bridge, addr); err != nil {
		return nil, fmt.Errorf("giving the hub its address: %w", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("starting the bridge of the nodes: %w", err)
	}
	const noNode = -1
	return &network{bridge: bridge}, node.AddPodRoutes(bridge, noNode)
}

// port is the name of the bridge's end of the connection of a node.
func port(index int) string { return fmt.Sprintf("node%d", index) }

// connect gives a process in a network namespace of its own an interface on the bridge.
func (n *network) connect(index, pid int) error {
	_ = n.disconnect(index) // of the node before it lost its power
	attrs := netlink.NewLinkAttrs()
	attrs.Name = port(index)
	attrs.MasterIndex = n.bridge.Attrs().Index
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: node.Interface, PeerNamespace: netlink.NsPid(pid),
		PeerHardwareAddr: hardwareAddress(index), // the same after each start, because others remember it
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("connecting node %d: %w", index, err)
	}
	return n.setPort(index, true)
}

func (n *network) disconnect(index int) error {
	link, err := netlink.LinkByName(port(index))
	if err != nil {
		return fmt.Errorf("finding the connection of node %d: %w", index, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("disconnecting node %d: %w", index, err)
	}
	return nil
}

// setPort lets packets of a node pass, or none.
func (n *network) setPort(index int, up bool) error {
	link, err := netlink.LinkByName(port(index))
	if err != nil {
		return fmt.Errorf("finding the connection of node %d: %w", index, err)
	}
	set := netlink.LinkSetDown
	if up {
		set = netlink.LinkSetUp
	}
	if err := set(link); err != nil {
		return fmt.Errorf("changing the connection of node %d: %w", index, err)
	}
	return nil
}

// delay inserts a relay between a node and the bridge.
func (n *network) delay(index int, delay time.Duration) (*packetRelay, error) {
	link, err := netlink.LinkByName(port(index))
	if err != nil {
		return nil, fmt.Errorf("finding the connection of node %d: %w", index, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = delayedPort(index)
	attrs.MasterIndex = n.bridge.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprintf("relay%d", index)}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("making an interface for the delayed packets of node %d: %w", index, err)
	}
	r, err := n.startRelay(delay, link, pair)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("delaying the packets of node %d: %w", index, err), n.undelay(index, nil))
	}
	return r, nil
}

func (n *network) startRelay(delay time.Duration, link netlink.Link, pair *netlink.Veth) (*packetRelay, error) {
	peer, err := netlink.LinkByName(pair.PeerName)
	if err != nil {
		return nil, err
	}
	// The hub has addresses on the bridge. Without ARP it does not answer for them on these interfaces as well.
	err = errors.Join(netlink.LinkSetNoMaster(link), netlink.LinkSetARPOff(link), netlink.LinkSetARPOff(peer),
		netlink.LinkSetUp(pair), netlink.LinkSetUp(peer))
	if err != nil {
		return nil, err
	}
	return startPacketRelay(delay, [2]netlink.Link{link, peer})
}

// undelay reverts delay.
func (n *network) undelay(index int, r *packetRelay) error {
	var errs []error
	if r != nil {
		errs = append(errs, r.stop())
	}
	pair, err := netlink.LinkByName(delayedPort(index))
	if err == nil {
		err = netlink.LinkDel(pair)
	}
	errs = append(errs, err)
	link, err := netlink.LinkByName(port(index))
	if err == nil {
		err = errors.Join(netlink.LinkSetARPOn(link), netlink.LinkSetMaster(link, n.bridge))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("no longer delaying the packets of node %d: %w", index, err)
	}
	return nil
}

func delayedPort(index int) string { return fmt.Sprintf("delayed%d", index) }

// hubIndex gives the hub a hardware address that no node has.
const hubIndex = 0xff

func hardwareAddress(index int) net.HardwareAddr {
	const localUnicast = 0x02
	return net.HardwareAddr{localUnicast, 'n', 'o', 'd', 'e', byte(index)} //nolint:gosec // it is below spec.MaxNodes
}
