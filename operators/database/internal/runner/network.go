//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// The network is reserved for benchmarks (RFC 2544). The gateway is the node; it has all cluster IPs as well.
const (
	gateway   = "198.18.0.1"
	prefix    = "/16"
	perOctet  = 250
	firstHost = 2
)

// ip runs commands of iproute2 in a network namespace. The commands refer to another namespace as /proc/self/fd/3.
func ip(network *os.File, commands string, other ...*os.File) error {
	return onThread(func() error {
		if err := enter(network, unix.CLONE_NEWNET); err != nil {
			return err
		}
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(commands)
		cmd.ExtraFiles = other
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("configuring a network: %w: %s", err, out)
		}
		return nil
	})
}

// createBridge creates the bridge between the networks of pods. Its hardware address is fixed: by default it is that of a
// port, and changes if that port is removed. The neighbor caches would be stale for a minute.
func (s *sandbox) createBridge() error {
	return ip(s.network, "link set lo up\nlink add pods address 02:00:00:00:00:01 type bridge\naddr add "+gateway+prefix+
		" dev pods\nlink set pods up\n")
}

// newNetwork creates the network namespace of a pod and returns its address.
func (s *sandbox) newNetwork(number int) (*os.File, string, error) {
	var network *os.File
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network: %w", err)
		}
		network, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, "", err
	}
	address := fmt.Sprintf("198.18.%d.%d", number/perOctet, number%perOctet+firstHost)
	err = ip(s.network, fmt.Sprintf("link add pod%[1]d master pods type veth peer name eth0 netns /proc/self/fd/3\n"+
		"link set pod%[1]d up\n", number), network)
	if err == nil {
		err = ip(network, "link set lo up\naddr add "+address+prefix+" dev eth0\nlink set eth0 up\n"+
			"route add default via "+gateway+"\n")
	}
	if err != nil {
		_ = network.Close()
		return nil, "", err
	}
	return network, address, nil
}

// dial connects from the node.
func (s *sandbox) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = onThread(func() error {
		if err := enter(s.network, unix.CLONE_NEWNET); err != nil {
			return err
		}
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// A proxy forwards connections to one port of one cluster IP, as kube-proxy does.
type proxy struct {
	sandbox  *sandbox
	listener net.Listener
	mu       sync.Mutex
	backends []string
}

// newProxy listens on an address of the node.
func (s *sandbox) newProxy(address string, backends []string) (*proxy, error) {
	p := &proxy{sandbox: s, backends: backends}
	err := onThread(func() (err error) {
		if err := enter(s.network, unix.CLONE_NEWNET); err != nil {
			return err
		}
		p.listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, err
	}
	go p.serve()
	return p, nil
}

func (p *proxy) setBackends(backends []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = backends
}

// serve accepts connections until the listener is closed. Existing connections continue, as in a cluster.
func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		backend := p.backends[rand.IntN(len(p.backends))] //nolint:gosec // a choice, no secret
		p.mu.Unlock()
		go p.forward(client.(*net.TCPConn), backend) //nolint:forcetypeassert // it listens on TCP
	}
}

// forward copies until both sides are closed. If the backend does not answer, the client's connection is reset.
func (p *proxy) forward(client *net.TCPConn, backend string) {
	defer func() { _ = client.Close() }()
	conn, err := p.sandbox.dial(context.Background(), backend)
	if err != nil {
		_ = client.SetLinger(0)
		return
	}
	defer func() { _ = conn.Close() }()
	server := conn.(*net.TCPConn) //nolint:forcetypeassert // it was dialed with TCP
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.CloseWrite() })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.CloseWrite() })
	both.Wait()
}

// routes maps the addresses of Services with a cluster IP to the addresses of their ready pods.
func routes(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) map[string][]string {
	all := map[string][]string{}
	for _, service := range services {
		if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		for _, port := range service.Spec.Ports {
			var backends []string
			for _, e := range readyEndpoints(service, slices) {
				if number, ok := e.ports[port.Name]; ok {
					backends = append(backends, net.JoinHostPort(e.address, strconv.Itoa(int(number))))
				}
			}
			if len(backends) > 0 { // otherwise there is no listener, and connections are refused
				all[net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))] = backends
			}
		}
	}
	return all
}

// An endpoint is a pod behind a Service.
type endpoint struct {
	address, hostname string
	ports             map[string]int32
}

// readyEndpoints returns the endpoints of a Service that are ready or published regardless of readiness.
func readyEndpoints(service *corev1.Service, slices []*discoveryv1.EndpointSlice) []endpoint {
	var all []endpoint
	for _, s := range slices {
		if s.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		ports := map[string]int32{}
		for _, p := range s.Ports {
			if p.Name != nil && p.Port != nil {
				ports[*p.Name] = *p.Port
			}
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			found := endpoint{address: e.Addresses[0], ports: ports}
			if e.Hostname != nil {
				found.hostname = *e.Hostname
			}
			all = append(all, found)
		}
	}
	return all
}

// hosts returns the common part of /etc/hosts in all pods of a namespace. A name resolves to the cluster IP, with or without
// a listener, or to the endpoints of a headless Service.
func hosts(namespace string, services []*corev1.Service, ready []*discoveryv1.EndpointSlice) string {
	names := map[string][]string{} // keyed by address
	add := func(address, name string) {
		qualified := name + "." + namespace
		names[address] = append(names[address], name, qualified, qualified+".svc", qualified+".svc.cluster.local")
	}
	for _, service := range services {
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			if service.Spec.ClusterIP != "" {
				add(service.Spec.ClusterIP, service.Name)
			}
			continue
		}
		for _, e := range readyEndpoints(service, ready) {
			add(e.address, service.Name)
			if e.hostname != "" {
				add(e.address, e.hostname+"."+service.Name)
			}
		}
	}
	lines := []string{"127.0.0.1 localhost\n"}
	for _, address := range slices.Sorted(maps.Keys(names)) {
		lines = append(lines, address+" "+strings.Join(names[address], " ")+"\n")
	}
	return strings.Join(lines, "")
}

// updateProxies starts, updates and stops proxies until they match the routes.
func (s *sandbox) updateProxies(proxies map[string]*proxy, routes map[string][]string) error {
	for address, p := range proxies {
		if routes[address] == nil {
			_ = p.listener.Close()
			delete(proxies, address)
		}
	}
	var errs []error
	for address, backends := range routes {
		if p := proxies[address]; p != nil {
			p.setBackends(backends)
			continue
		}
		host, _, _ := net.SplitHostPort(address)
		err := ip(s.network, "addr replace "+host+"/32 dev lo\n")
		if err == nil {
			proxies[address], err = s.newProxy(address, backends)
		}
		if err != nil {
			delete(proxies, address)
			errs = append(errs, fmt.Errorf("making a cluster IP lead somewhere: %w", err))
		}
	}
	return errors.Join(errs...)
}
