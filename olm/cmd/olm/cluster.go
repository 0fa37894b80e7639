package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answerTimeout limits the first request to the cluster, which lists the nodes.
const answerTimeout = 10 * time.Second

// clusterHint is the end of error messages about an unsuitable cluster.
const clusterHint = "make up BARE=1 starts one that will do, and prints which KUBECONFIG to export"

// connect reads the kubeconfig, and rejects a cluster that is not simulated: OLM would be a second instance there, and the
// operators that it installs would run with its permissions.
func (s *session) connect(ctx context.Context) error {
	if s.file == "" {
		return errors.New("there is no KUBECONFIG: " + clusterHint)
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(s.file)}
	var err error
	s.config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("KUBECONFIG %s names no cluster: %s", s.file, clusterHint)
	}
	if err != nil {
		return fmt.Errorf("reading KUBECONFIG %s: %w; %s", s.file, err, clusterHint)
	}
	if !local(s.config.Host) {
		return fmt.Errorf("the cluster at %s is not on this machine, and simulated ones are: %s", s.config.Host, clusterHint)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	s.config.QPS = -1 // the API server limits the rate
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var nodes corev1.NodeList
	if s.client, err = client.New(s.config, client.Options{Scheme: scheme}); err == nil {
		err = s.client.List(ctx, &nodes)
	}
	if err != nil {
		return fmt.Errorf("the cluster at %s does not say which nodes it has (%w): %s", s.config.Host, err, clusterHint)
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("the cluster at %s has no nodes: %s", s.config.Host, clusterHint)
	}
	for _, node := range nodes.Items {
		if !strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, "kwok://") {
			return fmt.Errorf("node %s of the cluster at %s is not simulated: %s", node.Name, s.config.Host, clusterHint)
		}
	}
	return nil
}

// local reports whether an API server is on the loopback interface.
func local(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// clusterDone returns a channel that is closed when the cluster has ended. A cluster started later is another cluster, a
// slow cluster has not ended.
func (s *session) clusterDone(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		times := 0
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			if times++; !s.connectionRefused(ctx) {
				times = 0
			}
			return times == 3, nil
		})
		if err == nil {
			close(done)
		}
	}()
	return done
}

// connectionRefused reports whether the cluster's address refuses connections.
func (s *session) connectionRefused(ctx context.Context) bool {
	return utilnet.IsConnectionRefused(s.client.List(ctx, &corev1.NodeList{}))
}
