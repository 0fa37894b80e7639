// Package egress connects an API server to the Services of programs that run as processes of this machine.
//
// The API server dials the cluster IP of a Service to call a webhook. Outside of a cluster's network nothing has that
// address. The proxy of this package, which stands where konnectivity stands in a real cluster, dials the process of the
// Service instead. It dials all other addresses directly.
package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// AddressAnnotation is the annotation with the address, such as 127.0.0.1:9443, of the process that serves a Service or
// that runs for a pod. The annotation of a Service has precedence over those of its pods.
const AddressAnnotation = "testkit.homeostat.dev/address"

// dialTimeout bounds the lookup of a Service and the connection to its process.
const dialTimeout = 10 * time.Second

// Configuration returns the file for --egress-selector-config-file that sends the connections of an API server to the
// proxy at a unix socket.
func Configuration(socket string) ([]byte, error) {
	type object = map[string]any
	return json.Marshal(object{
		"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
		"egressSelections": []object{{"name": "cluster", "connection": object{
			"proxyProtocol": "HTTPConnect", "transport": object{"uds": object{"udsName": socket}},
		}}},
	})
}

// Start serves the proxy at a unix socket until ctx ends. The client has to be permitted to list all Services, pods and
// EndpointSlices. The socket of a hub, if it is not empty, is that of an HTTP proxy in the network of real nodes.
func Start(ctx context.Context, socket, hub string, client kubernetes.Interface) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("serving the API server's egress: %w", err)
	}
	server := &http.Server{Handler: &proxy{ctx: ctx, client: client, hub: hub}, ReadHeaderTimeout: dialTimeout}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Printf("serving the API server's egress: %v", err)
		}
	}()
	return nil
}

// proxy is an HTTP proxy for the method CONNECT.
type proxy struct {
	ctx    context.Context //nolint:containedctx // of the server: connections outlive the context of their request
	client kubernetes.Interface
	hub    string // empty for simulated nodes
}

// ServeHTTP implements [http.Handler].
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodConnect {
		http.Error(w, "this proxy serves CONNECT alone", http.StatusMethodNotAllowed)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = client.Close() }()
	server, err := p.dial(p.ctx, req.Host)
	if err != nil { // the API server puts the status line into its error
		_, _ = fmt.Fprintf(client, "HTTP/1.1 503 %v\r\n\r\n", err)
		return
	}
	defer func() { _ = server.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	stop := context.AfterFunc(p.ctx, func() { _ = client.Close() })
	defer stop()
	relay(client, server)
}

// relay copies in both directions until one side closes its connection.
func relay(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = a.Close()
			_ = b.Close()
		})
	}
	both.Wait()
}

// dial connects to the process of a Service, or to an address.
func (p *proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	service, err := p.service(ctx, address)
	if err != nil {
		return nil, err
	}
	if service == nil {
		return p.dialNetwork(ctx, address)
	}
	name := service.Namespace + "/" + service.Name
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	address, err = p.process(ctx, service)
	if err == nil && address == "" && p.hub != "" {
		address, err = p.endpoint(ctx, service, port)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the process of Service %s: %w", name, err)
	}
	if address == "" {
		return nil, fmt.Errorf("no process serves Service %s", name)
	}
	conn, err := p.dialNetwork(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("the process of Service %s does not serve: %w", name, err)
	}
	return conn, nil
}

// service returns the Service with the IP of an address, or nil.
func (p *proxy) service(ctx context.Context, address string) (*corev1.Service, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	services, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.clusterIP", host).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the Service at %s: %w", host, err)
	}
	if len(services.Items) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	return &services.Items[0], nil
}

// process returns the address of the process that serves a Service, of one of several if pods have them, or "".
func (p *proxy) process(ctx context.Context, service *corev1.Service) (string, error) {
	if address := service.Annotations[AddressAnnotation]; address != "" || len(service.Spec.Selector) == 0 {
		return address, nil
	}
	pods, err := p.client.CoreV1().Pods(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
	})
	if err != nil {
		return "", err
	}
	var addresses []string
	for i := range pods.Items {
		if address := pods.Items[i].Annotations[AddressAnnotation]; address != "" && isReady(&pods.Items[i]) {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return "", nil
	}
	return addresses[rand.IntN(len(addresses))], nil
}

func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
