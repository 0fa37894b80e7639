//go:build linux

package hub

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/node"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// packetFaults are packets that a node drops or delays. The zero value has none.
type packetFaults struct {
	from    []int         // indexes of the nodes from which it receives nothing
	percent int           // the share of all packets that it sends and receives which is lost
	delay   time.Duration // of each packet that it sends or receives
}

// maxDelay is the longest delay of packets. With more, most requests of kubelets fail.
const maxDelay = 10 * time.Second

// rules returns the input of nft that replaces the rules for the faults of a node. They come before all others, and see the
// addresses of pods, not of Services.
func (f packetFaults) rules() string {
	const table = "testkit-faults"
	var in, out strings.Builder
	for _, index := range f.from {
		fmt.Fprintf(&in, "\t\tip saddr { %s, %s } drop\n", spec.NodeAddress(index), spec.PodRange(index))
	}
	if f.percent > 0 {
		chance := fmt.Sprintf(" numgen random mod 100 < %d", f.percent)
		if f.percent == 100 { // nft rejects a comparison that is always true
			chance = ""
		}
		fmt.Fprintf(&in, "\t\tiifname %q%s drop\n", node.Interface, chance)
		fmt.Fprintf(&out, "\t\toifname %q%s drop\n", node.Interface, chance)
	}
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n"+
		"\tchain in {\n\t\ttype filter hook prerouting priority -300; policy accept;\n%s\t}\n"+
		"\tchain out {\n\t\ttype filter hook postrouting priority 300; policy accept;\n%s\t}\n}\n",
		table, in.String(), out.String())
}

// changeFaults changes which packets the node drops and delays. A node that is off does so when it is on.
func (n *machine) changeFaults(change func(f *packetFaults)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.faults)
	return errors.Join(n.applyRules(), n.applyDelay())
}

// applyDelay starts, changes or stops the relay of a node that is on. The caller holds the mutex.
func (n *machine) applyDelay() (err error) {
	switch {
	case n.process == nil: // it has no interface
	case n.faults.delay == 0 && n.relay != nil:
		err = n.hub.bridge.undelay(n.index, n.relay)
		n.relay = nil
	case n.faults.delay > 0 && n.relay == nil:
		n.relay, err = n.hub.bridge.delay(n.index, n.faults.delay)
	case n.faults.delay > 0:
		n.relay.delay.Store(int64(n.faults.delay))
	}
	return err
}

// partition separates two nodes.
func (h *hub) partition(n *machine, r *http.Request) error {
	other := h.find(r.URL.Query().Get("node"))
	if other == nil || other == n {
		return fmt.Errorf("there is no other node %q", r.URL.Query().Get("node"))
	}
	drop := func(from *machine) func(f *packetFaults) {
		return func(f *packetFaults) {
			if !slices.Contains(f.from, from.index) {
				f.from = append(f.from, from.index)
			}
		}
	}
	if err := n.changeFaults(drop(other)); err != nil {
		return err
	}
	return other.changeFaults(drop(n))
}

// losePackets lets a node drop some of its packets.
func (h *hub) losePackets(n *machine, r *http.Request) error {
	percent, err := strconv.Atoi(r.URL.Query().Get("percent"))
	if err != nil || percent < 0 || percent > 100 {
		return fmt.Errorf("%q is no share of packets in percent", r.URL.Query().Get("percent"))
	}
	return n.changeFaults(func(f *packetFaults) { f.percent = percent })
}

// delayPackets lets a node send and receive each of its packets later.
func (h *hub) delayPackets(n *machine, r *http.Request) error {
	delay, err := time.ParseDuration(r.URL.Query().Get("by"))
	if err != nil || delay < 0 || delay > maxDelay {
		return fmt.Errorf("%q is no delay between 0 and %v", r.URL.Query().Get("by"), maxDelay)
	}
	return n.changeFaults(func(f *packetFaults) { f.delay = delay })
}

// connectNode ends the faults of a node, and its partitions from other nodes.
func (h *hub) connectNode(n *machine) error {
	if err := h.bridge.setPort(n.index, true); err != nil {
		return err
	}
	for _, other := range h.nodes {
		err := other.changeFaults(func(f *packetFaults) {
			f.from = slices.DeleteFunc(f.from, func(index int) bool { return index == n.index })
			if other == n {
				*f = packetFaults{}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
