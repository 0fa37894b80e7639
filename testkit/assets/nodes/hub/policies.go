//go:build linux

package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/policy"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// policyRetry is the pause after rules that could not be applied, and the interval at which they are compared.
const policyRetry = time.Second

// A policyController keeps the firewall rules of all nodes equal to the NetworkPolicies.
type policyController struct {
	hub        *hub
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networkinglisters.NetworkPolicyLister
	changed    chan struct{} // has a value after a change
}

// startPolicies starts the controller.
func (h *hub) startPolicies() error {
	config, err := clientcmd.BuildConfigFromFlags("", h.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &policyController{
		hub: h, changed: make(chan struct{}, 1), pods: factory.Core().V1().Pods().Lister(),
		namespaces: factory.Core().V1().Namespaces().Lister(), policies: factory.Networking().V1().NetworkPolicies().Lister(),
	}
	signal := func(any) { c.signal() }
	handlers := cache.ResourceEventHandlerFuncs{AddFunc: signal, DeleteFunc: signal, UpdateFunc: func(_, _ any) { c.signal() }}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer(),
		factory.Networking().V1().NetworkPolicies().Informer(),
	} {
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return fmt.Errorf("watching NetworkPolicies: %w", err)
		}
	}
	ctx := context.Background() // until the hub is killed
	factory.StartWithContext(ctx)
	go func() {
		factory.WaitForCacheSync(ctx.Done())
		c.run()
	}()
	return nil
}

func (c *policyController) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run applies rules after each change, and to nodes that were turned on meanwhile.
func (c *policyController) run() {
	for ticker := time.Tick(policyRetry); ; {
		if err := c.apply(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		select {
		case <-c.changed:
		case <-ticker:
		}
	}
}

func (c *policyController) apply() error {
	state, err := c.state()
	if err != nil {
		return err
	}
	for _, m := range c.hub.nodes {
		if err := m.setPolicies(state.Rules(m.name())); err != nil {
			return err
		}
	}
	return nil
}

// dnsServer is the server for policies, which expect pods of it.
var dnsServer = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "dns", Labels: map[string]string{"k8s-app": "kube-dns"},
	},
	Status: corev1.PodStatus{PodIP: spec.HubAddress},
}

func (c *policyController) state() (*policy.State, error) {
	s := &policy.State{Namespaces: map[string]labels.Set{}}
	var err error
	if s.Pods, err = c.pods.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	s.Pods = append(s.Pods, dnsServer)
	namespaces, err := c.namespaces.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, ns := range namespaces {
		s.Namespaces[ns.Name] = ns.Labels
	}
	if s.Policies, err = c.policies.List(labels.Everything()); err != nil {
		return nil, fmt.Errorf("listing NetworkPolicies: %w", err)
	}
	return s, nil
}

// setPolicies gives a node the firewall rules for policies.
func (n *machine) setPolicies(rules string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.policies = rules
	return n.applyRules()
}

// applyRules gives a node that is on its firewall rules, unless it has them. The caller holds the mutex.
func (n *machine) applyRules() error {
	rules := n.policies + n.faults.rules()
	if n.process == nil || n.rules == rules {
		return nil
	}
	file := filepath.Join(n.dir(), "rules.nft")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return fmt.Errorf("writing the firewall rules of node %s: %w", n.name(), err)
	}
	network := fmt.Sprintf("--net=/proc/%d/ns/net", n.process.PID)
	err := n.hub.init.Run(filepath.Join(n.dir(), "nft.log"), "nsenter", network, "nft", "--file", file)
	if err != nil {
		return fmt.Errorf("setting the firewall rules of node %s: %w", n.name(), err)
	}
	n.rules = rules
	return nil
}
