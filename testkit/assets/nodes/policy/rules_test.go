package policy_test

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/policy"
)

func pod(namespace, name, ip string, set map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
		}}},
		Status: corev1.PodStatus{PodIP: ip, Phase: corev1.PodRunning},
	}
}

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// state has a server with a policy, a client in its namespace and one in another.
func state(spec networkingv1.NetworkPolicySpec) *policy.State {
	spec.PodSelector = *selector("app", "server")
	other := pod("other", "elsewhere", "10.244.1.4", map[string]string{"app": "client"})
	other.Spec.NodeName = "node-1"
	ended := pod("shop", "ended", "10.244.0.9", map[string]string{"app": "client"})
	ended.Status.Phase = corev1.PodSucceeded
	return &policy.State{
		Pods: []*corev1.Pod{
			pod("shop", "server", "10.244.0.2", map[string]string{"app": "server"}),
			pod("shop", "client", "10.244.0.3", map[string]string{"app": "client"}), other, ended,
		},
		Namespaces: map[string]labels.Set{"shop": {"team": "shop"}, "other": {"team": "other"}},
		Policies: []*networkingv1.NetworkPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "server"}, Spec: spec,
		}},
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	port := func(p intstr.IntOrString) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Port: &p}}
	}
	peers := func(p ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer { return p }
	clients := networkingv1.NetworkPolicyPeer{PodSelector: selector("app", "client")}
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	for name, test := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want []string // the rules of the chain of ingress, or of egress
	}{
		"nothing is permitted": {networkingv1.NetworkPolicySpec{}, []string{"drop"}},
		"everything": {
			networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
			[]string{"meta nfproto ipv4 return", "drop"},
		},
		"pods of the namespace": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: peers(clients), Ports: port(intstr.FromInt32(80))},
		}}, []string{"ip saddr { 10.244.0.3 } tcp dport 80 return", "drop"}},
		"pods of another namespace": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: peers(networkingv1.NetworkPolicyPeer{NamespaceSelector: selector("team", "other")})},
		}}, []string{"ip saddr { 10.244.1.4 } return", "drop"}},
		"no pod matches": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: peers(networkingv1.NetworkPolicyPeer{PodSelector: selector("app", "none")})},
		}}, []string{"drop"}},
		"a port with a name": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: port(intstr.FromString("web"))},
		}}, []string{"tcp dport 8080 return", "drop"}},
		"a name that no container has": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: port(intstr.FromString("none"))},
		}}, []string{"drop"}},
		"an IP block": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{From: peers(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{
				CIDR: "10.0.0.7/8", Except: []string{"10.1.0.0/16"},
			}})},
		}}, []string{"ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16 } return", "drop"}},
		"egress to a port with a name": {networkingv1.NetworkPolicySpec{
			PolicyTypes: both[1:],
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: peers(clients), Ports: port(intstr.FromString("web"))}},
		}, []string{"ip daddr 10.244.0.3 tcp dport 8080 return", "drop"}},
		"a range of ports": {networkingv1.NetworkPolicySpec{
			PolicyTypes: both[1:],
			Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{
				Protocol: new(corev1.ProtocolUDP), Port: new(intstr.FromInt32(53)), EndPort: new(int32(55)),
			}}}},
		}, []string{"udp dport 53-55 return", "drop"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := state(test.spec).Rules("node-0")
			_, chain, found := strings.Cut(rules, "gress-10-244-0-2 {\n")
			chain, _, _ = strings.Cut(chain, "\t}\n")
			got := strings.Split(strings.TrimSpace(strings.ReplaceAll(chain, "\t", "")), "\n")
			if !found || strings.Join(got, "; ") != strings.Join(test.want, "; ") {
				t.Errorf("the rules are %q instead of %q in\n%s", got, test.want, rules)
			}
			if strings.Contains(state(test.spec).Rules("node-1"), "drop") {
				t.Error("another node has rules")
			}
		})
	}
}

// nft accepts the rules.
func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("nft is not installed")
	}
	s := state(networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{}},
		Egress: []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}},
		}},
	})
	cmd := exec.CommandContext(t.Context(), nft, "--check", "--file", "-")
	cmd.Stdin = strings.NewReader(s.Rules("node-0"))
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "Operation not permitted") {
			t.Skip("nft needs root")
		}
		t.Errorf("%v\n%s\n%s", err, out, s.Rules("node-0"))
	}
}
