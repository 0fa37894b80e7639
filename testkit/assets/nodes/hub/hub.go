//go:build linux

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// inNamespaces marks the process in the namespaces.
const inNamespaces = "HOMEOSTAT_HUB"

// Main runs the network described by the configuration file until it is killed: nothing needs a graceful end.
func Main(configFile string) error {
	data, err := os.ReadFile(configFile)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var c spec.Network
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if os.Getenv(inNamespaces) != "" {
		return run(&c)
	}
	return parent(&c)
}

// parent starts this program again in new namespaces and waits for it. The kernel kills it together with this process. On
// SIGTERM this process removes everything that the end of those processes leaves.
func parent(c *spec.Network) error {
	if err := system.RemoveUnusedCgroups(spec.IDPrefix); err != nil { // of networks that were killed
		return err
	}
	cgroups, err := system.FindCgroups(c.ID)
	if err != nil {
		return err
	}
	release, err := cgroups.Hold() // against other networks that start
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	runtime.LockOSThread() // the signal is sent when the thread that started the process ends
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	cmd.Cancel = func() error { return errors.Join(cmd.Process.Kill(), cgroups.Thaw()) }
	err = cmd.Run() // the kernel reaps PID 1 of a namespace after all other processes of it
	switch {
	case ctx.Err() != nil:
		return cgroups.Remove()
	case err != nil:
		err = fmt.Errorf("running the network of the nodes: %w", err)
	}
	return errors.Join(err, cgroups.Remove())
}

// A hub is the state of the process in the namespaces.
type hub struct {
	*spec.Network

	init     *system.Init
	images   http.Handler // the registry
	blobs    *blobs       // of the registry
	programs sync.Mutex   // held while an image of a program is made
	bridge   *network
	nodes    []*machine
}

func run(c *spec.Network) error {
	h := &hub{Network: c, init: system.NewInit()}
	if err := system.SeparateMounts(); err != nil {
		return err
	}
	if err := system.MountAll(system.Proc(), system.Tmpfs("/run")); err != nil {
		return err
	}
	var err error
	if h.bridge, err = newNetwork(); err != nil {
		return err
	}
	if err := h.forwardAPIServer(); err != nil {
		return err
	}
	if err := h.serveImages(); err != nil {
		return err
	}
	if err := h.startPrograms(); err != nil {
		return err
	}
	for i := range c.Nodes {
		h.nodes = append(h.nodes, &machine{hub: h, index: i})
		if err := h.nodes[i].Start(); err != nil {
			return err
		}
	}
	if err := h.startPolicies(); err != nil {
		return err
	}
	return h.serve()
}
