package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/ingressobjects"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/metricsobjects"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/volumeobjects"
	"github.com/homeostat-dev/homeostat/testkit/internal/egress"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// realControllers are the controllers for volumes and Services that simulated nodes do without.
var realControllers = []string{
	"persistentvolume-attach-detach-controller",
	"persistentvolume-expander-controller",
}

// aggregator is the name of the certificate with which the API server sends requests of users to extension API servers.
const aggregator = "aggregator"

// defaultDisk is the size of the disk of a node. The file takes the space of its content only.
const defaultDisk = 16 << 30

// realNetwork is the network of real nodes: its process, and what connects it to this one.
type realNetwork struct {
	spec    *spec.Network
	process *process.Process
	tokens  map[string]string // by user
}

// newRealNetwork describes the network. Credentials exist before the API server does.
func (c *Cluster) newRealNetwork() *realNetwork {
	n := &realNetwork{tokens: map[string]string{spec.ProxyUser: rand.Text()}, spec: &spec.Network{
		ID: spec.IDPrefix + strings.ToLower(rand.Text()[:8]), Dir: c.opts.Dir, Programs: c.opts.NodePrograms,
		Images: c.opts.Images, APIServer: c.path("api.sock"), Kubeconfig: c.path("components.kubeconfig"),
		ClientCA: c.path("tls.crt"), DiskBytes: defaultDisk, LeaseSeconds: int(c.opts.NodeLease / time.Second),
		RestartBackoffSeconds: int(c.opts.RestartBackoff / time.Second),
	}}
	if c.opts.Ingress {
		n.tokens[spec.IngressUser] = rand.Text()
		n.spec.IngressToken = c.path("ingress.token")
	}
	if c.opts.Metrics {
		n.tokens[spec.MetricsUser] = rand.Text()
		n.spec.MetricsKubeconfig = c.path("metrics.kubeconfig")
	}
	for i := range c.opts.Nodes {
		name := nodeName(i)
		n.tokens[spec.NodeUserPrefix+name] = rand.Text()
		n.spec.Nodes = append(n.spec.Nodes, spec.Node{
			Name: name, Kubeconfig: c.path(name + ".kubeconfig"), ProxyKubeconfig: c.path("kube-proxy.kubeconfig"),
		})
	}
	return n
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// tokenLines returns the lines of the API server's token file.
func (n *realNetwork) tokenLines() string {
	var lines strings.Builder
	for user, token := range n.tokens {
		group := ""
		if strings.HasPrefix(user, spec.NodeUserPrefix) {
			group = spec.NodeGroup
		}
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", token, user, user, group)
	}
	return lines.String()
}

// realArgs are the arguments of the API server for real nodes.
func (c *Cluster) realArgs() []string {
	return []string{
		"--advertise-address=" + spec.HubAddress,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + c.path("kubelet-client.crt"),
		"--kubelet-client-key=" + c.path("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		// Extension API servers learn from it who sends a request.
		"--proxy-client-cert-file=" + c.path(aggregator+".crt"),
		"--proxy-client-key-file=" + c.path(aggregator+".key"),
		"--requestheader-client-ca-file=" + c.path("tls.crt"),
		"--requestheader-allowed-names=" + aggregator,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

// startReal starts the network and its nodes, and returns when pods can run on all of them.
func (c *Cluster) startReal(ctx context.Context) error {
	c.opts.Progress("starting kube-controller-manager, kube-scheduler and %d nodes", c.opts.Nodes)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if c.opts.Metrics {
		if err := c.install(ctx, metricsobjects.Rights); err != nil {
			return fmt.Errorf("creating the rights of the metrics API's server: %w", err)
		}
	}
	if err := c.startHub(); err != nil {
		return err
	}
	kubeconfig := c.real.spec.Kubeconfig
	if _, err := c.launch(assets.Scheduler, schedulerArgs(kubeconfig)...); err != nil {
		return err
	}
	manager, err := c.launch(assets.ControllerManager, c.controllerManagerArgs(kubeconfig)...)
	if err != nil {
		return err
	}
	for _, create := range []func(context.Context) error{
		func(ctx context.Context) error { return createDNS(ctx, client) }, c.createVolumeObjects, c.prepareIngress,
	} {
		if err := c.real.process.WaitReady(ctx, create); err != nil {
			return err
		}
	}
	if c.opts.Metrics {
		go func() { _ = c.real.process.WaitReady(c.ctx, c.serveMetrics) }() // until the end of the cluster
	}
	err = c.real.process.WaitReady(ctx, func(ctx context.Context) error { return nodesReady(ctx, client, c.opts.Nodes) })
	if err != nil {
		return err
	}
	return waitForServiceAccounts(ctx, manager, client)
}

// startHub writes the credentials of the nodes and starts the network.
func (c *Cluster) startHub() error {
	n := c.real
	_, port, err := net.SplitHostPort(c.host)
	if err != nil {
		return fmt.Errorf("finding the port of the API server: %w", err)
	}
	if n.spec.APIServerPort, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("finding the port of the API server: %w", err)
	}
	if err := c.forwardAPIServer(); err != nil {
		return err
	}
	files := map[string][]byte{}
	if n.spec.IngressToken != "" {
		files[n.spec.IngressToken] = []byte(n.tokens[spec.IngressUser])
	}
	users := map[string]string{n.spec.Nodes[0].ProxyKubeconfig: spec.ProxyUser}
	if n.spec.MetricsKubeconfig != "" {
		users[n.spec.MetricsKubeconfig] = spec.MetricsUser
	}
	for _, node := range n.spec.Nodes {
		users[node.Kubeconfig] = spec.NodeUserPrefix + node.Name
	}
	for file, user := range users {
		if files[file], err = Kubeconfig(c.realConfig(n.tokens[user])); err != nil {
			return err
		}
	}
	if files[n.spec.Kubeconfig], err = Kubeconfig(c.Config()); err != nil {
		return err
	}
	dns := c.path("dns.kubeconfig")
	if files[dns], err = Kubeconfig(c.realConfig(c.token)); err != nil {
		return err
	}
	config := *n.spec
	config.Kubeconfig = dns
	file := c.path("network.json")
	if files[file], err = json.Marshal(config); err != nil {
		return fmt.Errorf("encoding the description of the network: %w", err)
	}
	if err := writeFiles(files); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := exec.Command(filepath.Join(c.opts.NodePrograms, spec.Hub), file)
	if n.process, err = process.Start(spec.Hub, cmd, c.path(spec.Hub+".log")); err != nil {
		return err
	}
	c.processes = append(c.processes, n.process)
	c.opts.Started(Component{Name: spec.Hub, ID: n.process.ID(), LogFile: n.process.LogFile})
	return nil
}

// forwardAPIServer serves the API server at a unix socket.
func (c *Cluster) forwardAPIServer() error {
	listener, err := new(net.ListenConfig).Listen(c.ctx, "unix", c.real.spec.APIServer)
	if err != nil {
		return fmt.Errorf("serving the API server at a socket: %w", err)
	}
	egress.Forward(c.ctx, listener, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", c.host)
	})
	return nil
}

// realConfig returns a configuration for clients in the network of the nodes.
func (c *Cluster) realConfig(token string) *rest.Config {
	cfg := c.Config()
	cfg.Host = "https://" + net.JoinHostPort(spec.HubAddress, strconv.Itoa(c.real.spec.APIServerPort))
	cfg.BearerToken = token
	return cfg
}

// createDNS creates the Service of the DNS server, as clusters have it. The server is no pod.
func createDNS(ctx context.Context, client kubernetes.Interface) error {
	const name, dns = "kube-dns", 53
	meta := metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: name,
		Labels: map[string]string{"k8s-app": name, discoveryv1.LabelServiceName: name},
	}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: spec.ClusterDNS}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{spec.HubAddress}}},
	}
	for name, protocol := range map[string]corev1.Protocol{"dns": corev1.ProtocolUDP, "dns-tcp": corev1.ProtocolTCP} {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: name, Port: dns, TargetPort: intstr.FromInt32(dns), Protocol: protocol,
		})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(dns)), Protocol: &protocol})
	}
	_, err := client.CoreV1().Services(meta.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Service of the DNS server: %w", err)
	}
	_, err = client.DiscoveryV1().EndpointSlices(meta.Namespace).Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Service of the DNS server: %w", err)
	}
	return nil
}

// prepareIngress creates the objects of the Ingress controller. It returns an error until the controller serves.
func (c *Cluster) prepareIngress(ctx context.Context) error {
	if !c.opts.Ingress {
		return nil
	}
	if err := c.reach(ctx, spec.IngressHTTPS); err != nil {
		return err
	}
	if err := c.install(ctx, ingressobjects.Objects()); err != nil {
		return fmt.Errorf("creating the objects of the Ingress controller: %w", err)
	}
	return nil
}

// serveMetrics registers the metrics API. It returns an error until the server serves: discovery would be incomplete.
func (c *Cluster) serveMetrics(ctx context.Context) error {
	if err := c.reach(ctx, net.JoinHostPort(spec.HubAddress, strconv.Itoa(spec.MetricsPort))); err != nil {
		return err
	}
	if err := c.install(ctx, metricsobjects.Service()); err != nil {
		return fmt.Errorf("creating the objects of the metrics API: %w", err)
	}
	return nil
}

// reach connects to an address in the network of the nodes.
func (c *Cluster) reach(ctx context.Context, address string) error {
	conn, err := realnode.Hub{Socket: c.hubSocket()}.Dial(ctx, address)
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("closing a connection to %s: %w", address, err)
	}
	return nil
}

// createVolumeObjects creates the kinds of snapshots and the classes of the volumes' driver.
func (c *Cluster) createVolumeObjects(ctx context.Context) error {
	for _, text := range []string{volumeobjects.Definitions(), volumeobjects.Classes} {
		if err := c.install(ctx, text); err != nil {
			return fmt.Errorf("creating the objects of the volumes' driver: %w", err)
		}
	}
	return nil
}

// install applies the objects of a YAML text.
func (c *Cluster) install(ctx context.Context, text string) error {
	objects, err := manifest.Decode([]byte(text))
	if err != nil {
		return err
	}
	return manifest.Install(ctx, c.Config(), objects)
}

// stopTimeout bounds the end of all processes of the nodes.
const stopTimeout = 30 * time.Second

// stop ends the network and all nodes, and returns when their processes have ended and their control groups are removed.
func (n *realNetwork) stop() error {
	if n.process == nil {
		return nil
	}
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.process.Done():
		return removeCgroups(n.spec.ID) // it has removed them, unless it was killed
	case <-time.After(stopTimeout):
		return fmt.Errorf("stopping the network of the nodes: it did not end in %v", stopTimeout)
	}
}
