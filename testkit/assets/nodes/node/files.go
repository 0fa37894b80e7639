//go:build linux

package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/volume"
)

// Places in the mount namespace of the node. What is on its disk survives the loss of its power.
const (
	diskMount  = "/mnt"
	runDir     = "/run"
	kubeletDir = "/var/lib/kubelet"
	pluginDir  = kubeletDir + "/plugins/volumes"
	cniDir     = "/etc/cni/net.d"
	cniResults = "/var/lib/cni" // of the plugins; each pod has files there, also after it was killed
	socketFile = "/run/containerd/containerd.sock"
)

// onDisk are the folders that the disk holds.
var onDisk = []string{kubeletDir, "/var/lib/containerd", "/var/log/pods", "/var/log/containers"}

// mount makes the file system of the node: that of the machine, with what belongs to the node in place of the machine's.
func (n *node) mount(cgroups system.Cgroups) error {
	if err := system.SeparateMounts(); err != nil {
		return err
	}
	if err := system.MountAll(system.Proc(), system.Sysfs()); err != nil {
		return err
	}
	if err := cgroups.Mount(); err != nil {
		return err
	}
	if err := system.MountAll(system.Tmpfs(runDir)); err != nil {
		return err
	}
	if err := n.mountDisk(); err != nil {
		return err
	}
	if err := system.MountAll(system.Tmpfs("/etc/cni"), system.Tmpfs(cniResults)); err != nil {
		return err
	}
	for _, dir := range onDisk {
		source := filepath.Join(diskMount, dir)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("making a folder on the disk: %w", err)
		}
		if err := system.MountAll(system.Bind(source, dir)); err != nil {
			return err
		}
	}
	if n.DiskFull {
		return volume.FillDisk(n.Disk())
	}
	return nil
}

// mountDisk mounts the disk, and formats it first if it is new.
func (n *node) mountDisk() error {
	const incomplete = ".new"
	if _, err := os.Stat(n.Disk()); errors.Is(err, os.ErrNotExist) {
		file, err := os.Create(n.Disk() + incomplete)
		if err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
		if err := errors.Join(file.Truncate(n.DiskBytes), file.Close()); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
		err = n.init.Run(n.log("disk"), "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1",
			n.Disk()+incomplete)
		if err != nil {
			return err
		}
		if err := os.Rename(n.Disk()+incomplete, n.Disk()); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
	}
	// mount detaches the loop device with the mount, however that ends.
	return n.init.Run(n.log("disk"), "mount", "-o", "loop", n.Disk(), diskMount)
}

// programs returns the command lines of the programs of the node.
func (n *node) programs() map[string][]string {
	return map[string][]string{
		"containerd": {"containerd", "--config", runDir + "/containerd.toml"},
		spec.Kubelet: {
			filepath.Join(n.Programs, spec.Kubelet), "--config=" + runDir + "/kubelet.json", "--kubeconfig=" + n.Kubeconfig,
			"--hostname-override=" + n.Name, "--node-ip=" + spec.NodeAddress(n.Index).String(), "--root-dir=" + kubeletDir,
		},
		spec.Volume: {
			filepath.Join(n.Programs, spec.Volume), "node", "--socket", pluginDir + "/csi.sock", "--dir", n.Volumes,
			"--node-name", n.Name, "--plugins-registry", kubeletDir + "/plugins_registry",
		},
		spec.KubeProxy: {
			filepath.Join(n.Programs, spec.KubeProxy), "--kubeconfig=" + n.ProxyKubeconfig, "--hostname-override=" + n.Name,
			"--proxy-mode=nftables", "--cluster-cidr=" + spec.PodNetwork, "--conntrack-max-per-core=0",
			"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			"--metrics-bind-address=127.0.0.1:10249", "--healthz-bind-address=127.0.0.1:10256",
		},
	}
}

// writeFiles writes the configuration of the programs.
func (n *node) writeFiles() error {
	kubelet, err := json.MarshalIndent(n.kubeletConfig(), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the configuration of kubelet: %w", err)
	}
	network, err := json.MarshalIndent(n.networkConfig(), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the configuration of the pods' network: %w", err)
	}
	files := map[string]string{
		runDir + "/containerd.toml":                n.containerdConfig(),
		runDir + "/kubelet.json":                   string(kubelet),
		runDir + "/resolv.conf":                    "", // no server beside that of the cluster
		runDir + "/registries/_default/hosts.toml": registryConfig(),
		filepath.Join(cniDir, "10-nodes.conflist"): string(network),
	}
	for _, dir := range []string{pluginDir, kubeletDir + "/plugins_registry"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder of the driver of volumes: %w", err)
		}
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("writing the configuration of a node: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // containers may read them
			return fmt.Errorf("writing the configuration of a node: %w", err)
		}
	}
	return nil
}

type object = map[string]any

// kubeletConfig returns a KubeletConfiguration for a node without systemd, whose control group is the root of a namespace.
func (n *node) kubeletConfig() object {
	lease := n.LeaseSeconds
	if lease == 0 {
		lease = 40
	}
	backoff := time.Duration(cmp.Or(n.RestartBackoffSeconds, 300)) * time.Second
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": n.ClientCA},
		},
		"authorization":            object{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + socketFile,
		"cgroupDriver":             "cgroupfs", "failCgroupV1": false, "failSwapOn": false,
		"clusterDNS": []string{spec.ClusterDNS}, "clusterDomain": "cluster.local", "resolvConf": runDir + "/resolv.conf",
		"nodeLeaseDurationSeconds": lease,
		// A volume is mounted after the status of the node has it. Kubernetes reports the status each 10 s.
		"nodeStatusUpdateFrequency":        "1s",
		"crashLoopBackOff":                 object{"maxContainerRestartPeriod": backoff.String()},
		"imageGCHighThresholdPercent":      100,
		"evictionPressureTransitionPeriod": "10s", // not 5 minutes: tests wait until a node has recovered
		"makeIPTablesUtilChains":           false, "protectKernelDefaults": false, "serializeImagePulls": false,
		"registerWithTaints": []object{}, "kubeAPIQPS": 100, "kubeAPIBurst": 200,
		// Pods are observed by events where containerd has them, otherwise each second.
		"syncFrequency": "10s", "shutdownGracePeriod": "0s",
	}
}

// networkConfig gives each pod an interface of its own that the node routes to. Pods on one bridge would answer each other
// past the node, which translates the addresses of Services.
func (n *node) networkConfig() object {
	return object{
		"cniVersion": "0.4.0", "name": "nodes",
		"plugins": []object{
			{
				"type": "ptp", "ipMasq": false,
				"ipam": object{
					"type": "host-local", "dataDir": runDir + "/cni",
					"ranges": [][]object{{{"subnet": spec.PodRange(n.Index)}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

// containerdConfig returns the configuration of containerd 1.6 and later.
func (n *node) containerdConfig() string {
	return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "` + socketFile + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + spec.PauseImage + `"
  enable_selinux = false
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = ` + strconv.Quote(spec.NetworkPlugins()) + `
    conf_dir = "` + cniDir + `"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "` + runDir + `/registries"
`
}

// registryConfig makes the hub serve the images of all registries.
func registryConfig() string {
	return fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n",
		"http://"+net.JoinHostPort(spec.HubAddress, strconv.Itoa(spec.RegistryPort)))
}
