package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// packages maps the programs of the machine that real nodes run to the Debian packages that have them.
var packages = map[string]string{
	"containerd": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc",
	"mkfs.ext4": "e2fsprogs", "resize2fs": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mount": "mount", "nft": "nftables",
}

// CheckReal returns an error that names what is missing on this machine for the Real tier: Linux, root, control groups,
// programs, or the right to make namespaces.
func CheckReal() error {
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root, because they make namespaces, mounts and control groups: use sudo")
	}
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && !isInitial(string(users)) {
		return errors.New("real nodes need root of the machine, not of a user namespace, because they mount file systems: " +
			"use sudo, or a container without user namespaces")
	}
	if _, err := system.FindCgroups(spec.IDPrefix); err != nil {
		return fmt.Errorf("real nodes need control groups: %w", err)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return errors.New("real nodes need loop devices for their disks, and this machine has no /dev/loop-control")
	}
	missing, install := []string{}, map[string]bool{}
	for program, pkg := range packages {
		if _, err := exec.LookPath(program); err != nil {
			missing, install[pkg] = append(missing, program), true
		}
	}
	if spec.NetworkPlugins() == "" {
		missing, install["containernetworking-plugins"] = append(missing, "the network plugin ptp"), true
	}
	if len(missing) == 0 {
		return checkNamespaces()
	}
	slices.Sort(missing)
	return fmt.Errorf("real nodes need %s; on Debian: apt-get install %s",
		strings.Join(missing, ", "), strings.Join(slices.Sorted(maps.Keys(install)), " "))
}

// isInitial reports whether a uid_map of proc(5) is that of the first user namespace, which has all users.
func isInitial(users string) bool {
	const all = 1<<32 - 1
	return slices.Equal(strings.Fields(users), []string{"0", "0", strconv.Itoa(all)})
}

// checkNamespaces makes the namespaces of a node and a firewall in them. A container may forbid one, and a kernel may not
// have nftables.
func checkNamespaces() error {
	cmd := exec.Command("nft", "add", "table", "inet", "homeostat")
	const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
		syscall.CLONE_NEWIPC
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("real nodes need the right to make namespaces, and nftables in the kernel: nft: %w %s", err, out)
	}
	return nil
}

// removeCgroups removes the control groups of a network that has ended.
func removeCgroups(id string) error { return system.RemoveUnusedCgroups(id) }
