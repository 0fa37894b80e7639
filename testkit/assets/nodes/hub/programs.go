//go:build linux

package hub

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/ingressobjects"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// restartInterval is the pause before a program that has ended is started again.
const restartInterval = time.Second

// metricsInterval is between two reads of the metrics of all pods. Kubelet measures each 10 s.
const metricsInterval = 15 * time.Second

// startPrograms starts what a cluster runs beside its nodes: the DNS server, the controllers of volumes and Ingresses, and
// the metrics API.
func (h *hub) startPrograms() error {
	corefile := filepath.Join(h.Dir, "Corefile")
	if err := h.writeDNS(corefile); err != nil {
		return err
	}
	if err := os.MkdirAll(h.Volumes(), 0o700); err != nil {
		return fmt.Errorf("making the folder of the volumes: %w", err)
	}
	socket := filepath.Join(h.Dir, "csi.sock")
	programs := map[string][]string{
		spec.CoreDNS:  {"-conf", corefile},
		spec.Volume:   {"controller", "--socket", socket, "--dir", h.Volumes()},
		spec.Sidecars: {"--kubeconfig", h.Kubeconfig, "--csi-address", socket},
	}
	if h.IngressToken != "" {
		programs[spec.Ingress] = h.ingressArgs()
	}
	if h.MetricsKubeconfig != "" {
		programs[spec.Metrics] = h.metricsArgs()
	}
	for program, args := range programs {
		command := system.Command{
			Args: append([]string{filepath.Join(h.Programs, program)}, args...), Log: h.Log(program),
		}
		child, err := h.init.Start(command)
		if err != nil {
			return err
		}
		go h.init.Keep(command, child, restartInterval)
	}
	return nil
}

// ingressArgs returns the arguments of the Ingress controller: see its main.go.
func (h *hub) ingressArgs() []string {
	return []string{
		"--api-server", "https://" + net.JoinHostPort(spec.HubAddress, strconv.Itoa(h.APIServerPort)),
		"--certificate-authority", h.ClientCA, "--token-file", h.IngressToken,
		"--class", ingressobjects.Class, "--service", ingressobjects.Service,
		"--http", spec.IngressHTTP, "--https", spec.IngressHTTPS,
	}
}

// metricsArgs returns the arguments of metrics-server. The certificates of kubelets have no authority.
func (h *hub) metricsArgs() []string {
	return []string{
		"--kubeconfig", h.MetricsKubeconfig, "--authentication-kubeconfig", h.MetricsKubeconfig,
		"--authorization-kubeconfig", h.MetricsKubeconfig,
		"--bind-address", spec.HubAddress, "--secure-port", strconv.Itoa(spec.MetricsPort),
		"--cert-dir", filepath.Join(h.Dir, spec.Metrics), "--metric-resolution", metricsInterval.String(),
		"--kubelet-insecure-tls", "--kubelet-preferred-address-types", "InternalIP",
	}
}
