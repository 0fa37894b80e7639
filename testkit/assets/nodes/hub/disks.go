//go:build linux

package hub

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/volume"
)

// slowInterval is the time after which new containers and volumes of a node with slow disks are slow as well.
const slowInterval = 100 * time.Millisecond

// diskFaults are the faults of the disks of a node. The zero value has none.
type diskFaults struct {
	full       bool
	operations int                 // per second, of each device; 0 means no limit
	devices    map[string]struct{} // that have had the limit
	isKept     bool                // keepSlow runs
}

// fillDisk leaves no free space on the disk of a node, also after a loss of power.
func (n *machine) fillDisk() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return errors.New("it is off")
	}
	n.disks.full = true
	return volume.FillDisk(n.diskFile())
}

// slowDisk limits the operations of the disks of a node, and of its volumes.
func (n *machine) slowDisk(r *http.Request) error {
	operations, err := strconv.Atoi(r.URL.Query().Get("operations"))
	if err != nil || operations < 1 {
		return fmt.Errorf("%q is no number of operations per second", r.URL.Query().Get("operations"))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disks.operations = operations
	if err := n.limitOperations(); err != nil {
		n.disks.operations = 0
		return err
	}
	if !n.disks.isKept {
		n.disks.isKept = true
		go n.keepSlow()
	}
	return nil
}

// keepSlow limits the operations of new containers, and of all after a loss of power.
func (n *machine) keepSlow() {
	for range time.Tick(slowInterval) {
		if !n.limitAgain() {
			return
		}
	}
}

func (n *machine) limitAgain() (isSlow bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.disks.operations == 0 {
		n.disks.isKept = false
		return false
	}
	if err := n.limitOperations(); err != nil {
		fmt.Fprintf(os.Stderr, "node %s: %v\n", n.name(), err)
	}
	return true
}

// limitOperations gives the containers of a node that is on the limit. The caller holds the mutex.
func (n *machine) limitOperations() error {
	if n.process == nil {
		return nil
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", n.process.PID))
	if err != nil {
		return fmt.Errorf("reading the mounts of node %s: %w", n.name(), err)
	}
	defer func() { _ = file.Close() }()
	mounts, err := mountinfo.GetMountsFromReader(file, func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Source, "/dev/loop"), false
	})
	if err != nil {
		return fmt.Errorf("reading the mounts of node %s: %w", n.name(), err)
	}
	if n.disks.devices == nil {
		n.disks.devices = map[string]struct{}{}
	}
	for _, m := range mounts {
		n.disks.devices[fmt.Sprintf("%d:%d", m.Major, m.Minor)] = struct{}{}
	}
	return n.setOperations(n.disks.operations)
}

// setOperations sets the limit for all devices that have had one.
func (n *machine) setOperations(perSecond int) error {
	group, err := system.FindCgroups(filepath.Join(n.cgroup(), "kubepods")) // kubelet and containerd have no limit
	if err != nil {
		return err
	}
	return group.LimitOperations(slices.Collect(maps.Keys(n.disks.devices)), perSecond)
}

// restoreDisk ends the faults of the disks of a node.
func (n *machine) restoreDisk() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if n.process != nil && n.disks.full {
		err = volume.FreeDisk(n.diskFile())
	}
	if n.process != nil && n.disks.operations > 0 {
		err = errors.Join(err, n.setOperations(0))
	}
	n.disks = diskFaults{isKept: n.disks.isKept}
	return err
}

// handleVolume changes a volume, by its ID.
func (h *hub) handleVolume(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	act(w, r, map[string]func() error{
		"fill": func() error { return volume.Fill(r.Context(), h.Volumes(), id) },
		"free": func() error { return volume.Free(r.Context(), h.Volumes(), id) },
	})
}
