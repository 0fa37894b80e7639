// Package spec describes the network of real nodes to the program that runs it. It has no dependencies, because testkit,
// which starts that program, imports it as well.
package spec

import "path/filepath"

// A Network describes the network and its nodes: the configuration of the program of the hub.
type Network struct {
	// ID names the control groups of the nodes. It begins with IDPrefix, and is unique on the machine.
	ID string `json:"id"`
	// Dir has the disks, logs and sockets. It is on the machine's file system, and its path is short, because of the sockets.
	Dir string `json:"dir"`
	// Programs is the folder with the programs of nodes.
	Programs string `json:"programs"`
	// Images are folders with images: files *.tar with OCI layouts.
	Images []string `json:"images,omitempty"`
	// APIServer is a unix socket whose connections reach the API server. The hub serves its port at HubAddress.
	APIServer string `json:"apiServer"`
	// APIServerPort is the port of the API server.
	APIServerPort int `json:"apiServerPort"`
	// Kubeconfig has the credentials of the DNS server and of the controllers of volumes.
	Kubeconfig string `json:"kubeconfig"`
	// ClientCA is a file with the authority of the API server's client certificate.
	ClientCA string `json:"clientCa"`
	// Nodes are the nodes.
	Nodes []Node `json:"nodes"`
	// DiskBytes is the size of the disk of each node.
	DiskBytes int64 `json:"diskBytes"`
	// LeaseSeconds is the time after which a node that does not renew its lease is not ready.
	LeaseSeconds int `json:"leaseSeconds,omitempty"`
	// RestartBackoffSeconds is the longest time that kubelet waits before it starts a container again. 0 means 300.
	RestartBackoffSeconds int `json:"restartBackoffSeconds,omitempty"`
	// IngressToken is the file with the token of the Ingress controller. Empty means that there is none.
	IngressToken string `json:"ingressToken,omitempty"`
	// MetricsKubeconfig has the credentials of the metrics API's server. Empty means that there is none.
	MetricsKubeconfig string `json:"metricsKubeconfig,omitempty"`
}

// A Node is a node of a Network.
type Node struct {
	Name string `json:"name"`
	// Kubeconfig has the credentials of the kubelet, ProxyKubeconfig those of kube-proxy.
	Kubeconfig      string `json:"kubeconfig"`
	ProxyKubeconfig string `json:"proxyKubeconfig"`
}

// IDPrefix begins the names of the control groups of all networks.
const IDPrefix = "homeostat-"

// ControlSocket is the name of the socket in Network.Dir at which the hub serves requests.
const ControlSocket = "hub.sock"

// Volumes returns the folder of the volumes.
func (n *Network) Volumes() string { return filepath.Join(n.Dir, "volumes") }

// Log returns the name of the log of a program in the hub.
func (n *Network) Log(program string) string { return filepath.Join(n.Dir, program+".log") }

// The programs of nodes. Most are one executable, which is named Program.
const (
	Program   = "nodes"
	Hub       = "nodes-hub"
	Kubelet   = "kubelet"
	KubeProxy = "kube-proxy"
	CoreDNS   = "coredns"
	// Volume is the driver of volumes: see package volume. Sidecars are its controllers, an executable of their own.
	Volume   = "homeostat-volume"
	Sidecars = "sidecars"
	// Ingress is the Ingress controller, an executable of its own.
	Ingress = "ingress"
	// Metrics is the server of the metrics API, an executable of its own.
	Metrics = "metrics-server"
	// Pause is the first process of each pod, an executable of its own.
	Pause = "pause"
)

// PauseImage is the name of the image with Pause.
const PauseImage = "testkit/pause:1"

// The users of the programs.
const (
	NodeUserPrefix = "system:node:"
	NodeGroup      = "system:nodes"
	ProxyUser      = "system:kube-proxy"
	IngressUser    = "testkit:ingress"
	MetricsUser    = "testkit:metrics"
)
