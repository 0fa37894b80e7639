//go:build linux

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// inCgroup marks the second execution of the program, in its control group namespace, with the configuration.
const inCgroup = "HOMEOSTAT_NODE"

// restartInterval is the pause before a program of the node that has ended is started again.
const restartInterval = time.Second

// Namespaces are those of the process of a node.
const Namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// Main runs a node, and returns only after an error.
func Main() error {
	var c Config
	if text := os.Getenv(inCgroup); text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		if err := os.Unsetenv(inCgroup); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		return run(&c)
	}
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	return enterCgroup(&c)
}

// enterCgroup executes the program again in its control group, which is the root of all that the node sees: a namespace
// belongs to a thread, and to the whole process after exec.
func enterCgroup(c *Config) error {
	cgroups, err := system.FindCgroups(c.Cgroup)
	if err != nil {
		return err
	}
	if err := cgroups.Join(); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("separating the control groups: %w", err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), inCgroup+"="+string(text)))
	return fmt.Errorf("executing the program of the node: %w", err)
}

// A node is the state of Main.
type node struct {
	*Config

	init *system.Init
}

func run(c *Config) error {
	cgroups, err := system.FindCgroups("") // before /sys is replaced
	if err != nil {
		return err
	}
	n := &node{Config: c, init: system.NewInit()}
	for _, step := range []func() error{
		func() error { return unix.Sethostname([]byte(c.Name)) },
		n.connect,
		func() error { return n.mount(cgroups) },
		n.writeFiles,
		n.startPrograms,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	select {} // until it is killed
}

// startPrograms starts containerd, kubelet, kube-proxy and the driver of volumes, and starts each again when it ends.
func (n *node) startPrograms() error {
	for name, args := range n.programs() {
		// runc leaves a file in the temporary folder when an exec is killed.
		command := system.Command{Args: args, Log: n.log(name), Env: []string{"TMPDIR=" + runDir}}
		child, err := n.init.Start(command)
		if err != nil {
			return err
		}
		go n.init.Keep(command, child, restartInterval)
	}
	return nil
}
