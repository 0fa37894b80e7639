package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/volumes"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// controllers are the controllers that an operator may rely on. The garbage collector and the namespace controller are
// missing: see package gc. So are controllers that need a cloud, real machines or real traffic.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"endpoints-controller",
	"endpointslice-controller",
	"ephemeral-volume-controller",
	"horizontal-pod-autoscaler-controller",
	"job-controller",
	"node-lifecycle-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
}

// startWorkloads starts the components that create and run pods, and returns when pods can run.
func (c *Cluster) startWorkloads(ctx context.Context) error {
	c.opts.Progress("starting kube-controller-manager, kube-scheduler and %d simulated nodes", c.opts.Nodes)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	kubeconfig, err := c.writeKubeconfig()
	if err != nil {
		return err
	}
	if c.simulator, err = c.launchKwok(kubeconfig); err != nil {
		return err
	}
	if _, err := c.launch(assets.Scheduler, schedulerArgs(kubeconfig)...); err != nil {
		return err
	}
	manager, err := c.launch(assets.ControllerManager, c.controllerManagerArgs(kubeconfig)...)
	if err != nil {
		return err
	}
	if err := c.ensureNodes(ctx, client, c.opts.Nodes); err != nil {
		return err
	}
	if err := volumes.Start(c.ctx, client); err != nil {
		return err
	}
	return waitForServiceAccounts(ctx, manager, client)
}

// waitForServiceAccounts returns when the controller manager works: it has no endpoint, but it makes the first
// ServiceAccount.
func waitForServiceAccounts(ctx context.Context, manager *process.Process, client kubernetes.Interface) error {
	return manager.WaitReady(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *Cluster) writeKubeconfig() (string, error) {
	data, err := Kubeconfig(c.Config())
	if err != nil {
		return "", err
	}
	file := c.path("components.kubeconfig")
	return file, writeFiles(map[string][]byte{file: data})
}

func (c *Cluster) launchKwok(kubeconfig string) (*process.Process, error) {
	dir := c.path("stages")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the stages of nodes and pods: %w", err)
	}
	stages, err := kubelet.WriteStages(dir)
	if err != nil {
		return nil, err
	}
	return c.launch(assets.Kwok, kubelet.Args(kubeconfig, stages)...)
}

func schedulerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	}
}

func (c *Cluster) controllerManagerArgs(kubeconfig string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--root-ca-file=" + c.path("tls.crt"),
		"--controllers=" + strings.Join(c.controllers(), ","),
	}
	if lease := c.opts.NodeLease; lease > 0 {
		args = append(args, "--node-monitor-period=1s", "--node-monitor-grace-period="+lease.String())
	}
	return args
}

func (c *Cluster) controllers() []string {
	if c.opts.Tier == Real {
		return slices.Concat(controllers, realControllers)
	}
	return controllers
}

// EnsureNodes adds simulated nodes until there are at least n, and returns when all accept pods. It is only for the
// Workloads tier.
func (c *Cluster) EnsureNodes(ctx context.Context, n int) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return c.ensureNodes(ctx, client, n)
}

func (c *Cluster) ensureNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	nodes := client.CoreV1().Nodes()
	for i := range n {
		_, err := nodes.Create(ctx, kubelet.NewNode(nodeName(i)), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating a simulated node: %w", err)
		}
	}
	return c.simulator.WaitReady(ctx, func(ctx context.Context) error { return nodesReady(ctx, client, n) })
}

// nodesReady returns an error unless the first n nodes accept pods.
func nodesReady(ctx context.Context, client kubernetes.Interface, n int) error {
	for i := range n {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !schedulable(node) {
			return fmt.Errorf("%s is not ready", node.Name)
		}
	}
	return nil
}

func schedulable(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}
