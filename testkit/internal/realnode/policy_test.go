//go:build linux

package realnode_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A NetworkPolicy admits the pods that it names, on the node of the server and on another one, and no other pod.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	k := start(t)
	on := func(node, name string) *corev1.Pod {
		p := pod(name)
		p.Labels = map[string]string{"role": name}
		p.Spec.NodeName = node
		k.Apply(p)
		return p
	}
	server := on("node-0", "server")
	pods := []*corev1.Pod{on("node-0", "near"), on("node-1", "far"), on("node-0", "friend")}
	for _, p := range append(pods, server) {
		k.Eventually(p, testkit.Ready())
	}
	k.Get(server)
	reach := func(from *corev1.Pod) error {
		_, err := k.Exec(from.Name, "main", "/program", "-get", "http://"+server.Status.PodIP+":8080")
		return err
	}
	for _, p := range pods {
		if err := reach(p); err != nil {
			t.Fatalf("without a policy: %v", err)
		}
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "friends"}}
	policy.Spec.PodSelector.MatchLabels = server.Labels
	policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	friends := metav1.LabelSelector{MatchLabels: map[string]string{"role": "friend"}}
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &friends}},
	}}
	k.Apply(policy)
	for _, p := range pods[:2] {
		k.Wait("pod "+p.Name+" is kept away", func(context.Context) error {
			if reach(p) == nil {
				return errors.New("it reaches the server")
			}
			return nil
		})
	}
	if err := reach(pods[2]); err != nil {
		t.Errorf("the pod that the policy admits: %v", err)
	}
	k.Eventually(server, testkit.Ready()) // the probes of its node are admitted
	k.Delete(policy)
	for _, p := range pods {
		k.Wait("pod "+p.Name+" is admitted again", func(context.Context) error { return reach(p) })
	}
}
