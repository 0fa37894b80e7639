//go:build linux

package hub

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

func TestPacketFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults packetFaults
		want   []string
	}{
		"none": {packetFaults{}, nil},
		"partition": {packetFaults{from: []int{1, 2}}, []string{
			"ip saddr { 10.88.1.2, 10.244.1.0/24 } drop", "ip saddr { 10.88.1.3, 10.244.2.0/24 } drop",
		}},
		"loss of some": {packetFaults{percent: 30}, []string{
			`iifname "eth0" numgen random mod 100 < 30 drop`, `oifname "eth0" numgen random mod 100 < 30 drop`,
		}},
		"loss of all": {packetFaults{percent: 100}, []string{`iifname "eth0" drop`, `oifname "eth0" drop`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := test.faults.rules()
			if n := strings.Count(rules, " drop\n"); n != len(test.want) {
				t.Errorf("%d rules drop packets, want %d:\n%s", n, len(test.want), rules)
			}
			for _, want := range test.want {
				if !strings.Contains(rules, want) {
					t.Errorf("%q is missing:\n%s", want, rules)
				}
			}
			checkSyntax(t, rules)
		})
	}
}

// checkSyntax lets nft check rules, where it can run.
func checkSyntax(t *testing.T, rules string) {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Log("the syntax is not checked: nft is not installed")
		return
	}
	cmd := exec.CommandContext(t.Context(), nft, "--check", "--file", "-")
	cmd.Stdin = strings.NewReader(rules)
	switch out, err := cmd.CombinedOutput(); {
	case err == nil:
	case strings.Contains(string(out), "Operation not permitted"):
		t.Log("the syntax is not checked: nft needs root")
	default:
		t.Errorf("nft rejects the rules: %v\n%s\n%s", err, out, rules)
	}
}

// Partitions of a node add up, a second one of the same two nodes changes nothing, and connect ends all of them. Those of
// other nodes stay.
func TestPartitions(t *testing.T) {
	t.Parallel()
	h := &hub{Network: &spec.Network{}}
	for i := range 4 {
		h.Nodes = append(h.Nodes, spec.Node{Name: fmt.Sprint("node-", i)})
		h.nodes = append(h.nodes, &machine{hub: h, index: i})
	}
	for _, two := range [][2]int{{1, 0}, {1, 2}, {3, 1}, {1, 2}, {2, 0}} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", fmt.Sprint("/nodes/node/partition?node=node-", two[1]), nil)
		if err := h.partition(h.nodes[two[0]], r); err != nil {
			t.Fatal(err)
		}
	}
	from := func() [][]int {
		var all [][]int
		for _, n := range h.nodes {
			all = append(all, slices.Sorted(slices.Values(n.faults.from)))
		}
		return all
	}
	if diff := cmp.Diff([][]int{{1, 2}, {0, 2, 3}, {0, 1}, {1}}, from()); diff != "" {
		t.Errorf("nodes from which each receives nothing (-want +got):\n%s", diff)
	}
	h.bridge = &network{}
	inNetworkNamespace(t, func() error {
		link := netlink.NewLinkAttrs()
		link.Name = port(1)
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: link}); err != nil {
			return err
		}
		return h.connectNode(h.nodes[1])
	})
	if diff := cmp.Diff([][]int{{2}, nil, {0}, nil}, from()); diff != "" {
		t.Errorf("nodes from which each receives nothing after connect (-want +got):\n%s", diff)
	}
}

// inNetworkNamespace calls f in a new network namespace, which ends with the thread.
func inNetworkNamespace(t *testing.T, f func() error) {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // without UnlockOSThread: the thread ends with this goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		result <- err
	}()
	switch err := <-result; {
	case errors.Is(err, syscall.EPERM):
		t.Skip("a network namespace needs root")
	case err != nil:
		t.Fatal(err)
	}
}
