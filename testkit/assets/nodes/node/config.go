// Package node is the program of one node: PID 1 of namespaces of its own, in which it runs containerd, kubelet and
// kube-proxy. The end of this process is the end of every process of the node, containers included, as when a machine loses
// its power: what remains is its disk, a file.
package node

import "path/filepath"

// A Config describes a node. The hub writes it to the standard input of the node's process.
type Config struct {
	Name string `json:"name"`
	// Index determines the addresses: see package spec.
	Index int `json:"index"`
	// Dir has the disk and the logs of the node. It is on the machine's file system.
	Dir string `json:"dir"`
	// Programs is the folder with kubelet and kube-proxy.
	Programs string `json:"programs"`
	// Cgroup is the control group of the node, below the machine's root.
	Cgroup string `json:"cgroup"`
	// Kubeconfig has the credentials of the kubelet, ProxyKubeconfig those of kube-proxy.
	Kubeconfig      string `json:"kubeconfig"`
	ProxyKubeconfig string `json:"proxyKubeconfig"`
	// ClientCA is a file with the authority of the API server's client certificate.
	ClientCA string `json:"clientCa"`
	// Volumes is the folder of the volumes of all nodes.
	Volumes string `json:"volumes"`
	// DiskBytes is the size of the disk; the file grows as it is filled.
	DiskBytes int64 `json:"diskBytes"`
	// DiskFull says that the disk has no free space.
	DiskFull bool `json:"diskFull,omitempty"`
	// LeaseSeconds is the time after which a node that does not renew its lease is not ready. 0 means 40.
	LeaseSeconds int `json:"leaseSeconds,omitempty"`
	// RestartBackoffSeconds is the longest time that kubelet waits before it starts a container again. 0 means 300.
	RestartBackoffSeconds int `json:"restartBackoffSeconds,omitempty"`
}

// Disk returns the file of the disk.
func (c *Config) Disk() string { return filepath.Join(c.Dir, "disk.img") }

func (c *Config) log(program string) string { return filepath.Join(c.Dir, program+".log") }
