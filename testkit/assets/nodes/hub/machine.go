//go:build linux

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/node"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// A machine is a node: on or off.
type machine struct {
	hub   *hub
	index int

	mu       sync.Mutex
	process  *system.Child // nil while it is off
	policies string        // the firewall rules for policies, see policy.State
	faults   packetFaults
	disks    diskFaults
	rules    string       // the firewall rules that it has
	relay    *packetRelay // nil unless its packets are delayed
}

func (n *machine) name() string { return n.hub.Nodes[n.index].Name }

func (n *machine) dir() string { return filepath.Join(n.hub.Dir, n.name()) }

func (n *machine) diskFile() string { return (&node.Config{Dir: n.dir()}).Disk() }

func (n *machine) cgroup() string { return filepath.Join(n.hub.ID, n.name()) }

// Start turns a node on, if it is off.
func (n *machine) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return nil
	}
	if err := os.MkdirAll(n.dir(), 0o700); err != nil {
		return fmt.Errorf("making the folder of node %s: %w", n.name(), err)
	}
	config, err := json.Marshal(n.config())
	if err != nil {
		return fmt.Errorf("encoding the configuration of node %s: %w", n.name(), err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting node %s: %w", n.name(), err)
	}
	defer func() { _ = read.Close() }()
	process, err := n.hub.init.Start(system.Command{
		Args: []string{filepath.Join(n.hub.Programs, spec.Program), "node"}, Stdin: read,
		Log: filepath.Join(n.dir(), "node.log"), Namespaces: node.Namespaces,
	})
	if err != nil {
		return errors.Join(err, write.Close())
	}
	err = n.hub.bridge.connect(n.index, process.PID)
	if err == nil {
		_, err = write.Write(config)
	}
	if err = errors.Join(err, write.Close()); err != nil {
		process.Kill()
		return fmt.Errorf("starting node %s: %w", n.name(), err)
	}
	n.process = process
	n.rules = ""
	go n.watch(process)
	return n.applyDelay()
}

// watch ends the hub if a node ends that was not stopped.
func (n *machine) watch(process *system.Child) {
	<-process.Done()
	n.mu.Lock()
	stopped := n.process != process
	n.mu.Unlock()
	if !stopped {
		fmt.Fprintf(os.Stderr, "node %s ended: %v\n", n.name(), process.Err())
		os.Exit(1)
	}
}

// Stop turns a node off: all its processes end at once.
func (n *machine) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	// What was not synchronized to a volume is lost with the power. The end of the mounts would write it.
	err := n.hub.init.Run(n.hub.Log("fence"), filepath.Join(n.hub.Programs, spec.Volume), "fence",
		"--dir", n.hub.Volumes(), "--node-name", n.name())
	process := n.process
	if n.relay != nil {
		err = errors.Join(err, n.hub.bridge.undelay(n.index, n.relay))
		n.relay = nil
	}
	n.process = nil
	process.SendKill()
	err = errors.Join(err, n.thaw())
	<-process.Done()
	_ = n.hub.bridge.disconnect(n.index) // it may have ended with its namespace
	return err
}

// thaw lets paused containers end that were killed with their node.
func (n *machine) thaw() error {
	cgroups, err := system.FindCgroups(n.cgroup())
	if err != nil {
		return err
	}
	return cgroups.Thaw()
}

func (n *machine) config() node.Config {
	of := n.hub.Nodes[n.index]
	return node.Config{
		Name: of.Name, Index: n.index, Dir: n.dir(), Programs: n.hub.Programs, Cgroup: n.cgroup(),
		Kubeconfig: of.Kubeconfig, ProxyKubeconfig: of.ProxyKubeconfig, ClientCA: n.hub.ClientCA,
		Volumes: n.hub.Volumes(), DiskBytes: n.hub.DiskBytes, DiskFull: n.disks.full, LeaseSeconds: n.hub.LeaseSeconds,
		RestartBackoffSeconds: n.hub.RestartBackoffSeconds,
	}
}
