package spec

import (
	"fmt"
	"net/netip"
)

// The addresses exist only in network namespaces that have no other ones: they cannot conflict with those of the machine.
const (
	// HubAddress is the address of the API server, the DNS server, the image registry, the Ingress controller and the
	// metrics API in the network of the nodes.
	HubAddress = "10.88.0.1"
	// PodNetwork has the addresses of all pods.
	PodNetwork = "10.244.0.0/16"
	// ClusterDNS is the address of the Service of the DNS server, and Kubernetes that of the API server.
	ClusterDNS = "10.0.0.10"
	Kubernetes = "10.0.0.1"
	// RegistryPort is the port of the image registry at HubAddress.
	RegistryPort = 5000
	// IngressHTTP and IngressHTTPS are the addresses of the Ingress controller.
	IngressHTTP  = HubAddress + ":80"
	IngressHTTPS = HubAddress + ":443"
	// MetricsPort is the port of the metrics API's server at HubAddress.
	MetricsPort = 4443
	// MaxNodes is the greatest number of nodes.
	MaxNodes = 250
)

// NodeAddress returns the address of a node; the first one has index 0.
func NodeAddress(index int) netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 1, byte(index + 1)}) } //nolint:gosec // below MaxNodes

// PodRange returns the addresses of the pods of a node.
func PodRange(index int) string { return fmt.Sprintf("10.244.%d.0/24", index) }
