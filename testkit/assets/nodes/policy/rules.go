package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Table is the name of the table of nftables that has the rules.
const Table = "testkit-policy"

// A State is what the rules depend on.
type State struct {
	Pods       []*corev1.Pod
	Namespaces map[string]labels.Set // their labels, by name
	Policies   []*networkingv1.NetworkPolicy
}

// Rules returns the input of nft that replaces the rules of a node. It is the same for equal states, in any order.
func (s *State) Rules(node string) string {
	var maps, chains strings.Builder
	for _, d := range []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress} {
		var elements []string
		for _, pod := range s.localPods(node) {
			policies := s.policiesOf(pod, d)
			if len(policies) == 0 {
				continue
			}
			name := strings.ToLower(string(d)) + "-" + strings.ReplaceAll(pod.Status.PodIP, ".", "-")
			elements = append(elements, pod.Status.PodIP+" : jump "+name)
			fmt.Fprintf(&chains, "\tchain %s {\n", name)
			for _, rule := range s.chain(pod, policies, d) {
				fmt.Fprintf(&chains, "\t\t%s return\n", rule)
			}
			chains.WriteString("\t\tdrop\n\t}\n")
		}
		if len(elements) > 0 {
			fmt.Fprintf(&maps, "\t\tip %s vmap { %s }\n", own(d), strings.Join(elements, ", "))
		}
	}
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n%s\tchain forward {\n"+
		"\t\ttype filter hook forward priority 0; policy accept;\n\t\tct state established,related accept\n%s\t}\n}\n",
		Table, chains.String(), maps.String())
}

// own is the address of a packet that belongs to the selected pod, and other that of the peer.
func own(d networkingv1.PolicyType) string {
	if d == networkingv1.PolicyTypeEgress {
		return "saddr"
	}
	return "daddr"
}

func other(d networkingv1.PolicyType) string {
	if d == networkingv1.PolicyTypeEgress {
		return "daddr"
	}
	return "saddr"
}

// localPods returns the pods of a node that have addresses of their own, sorted by these.
func (s *State) localPods(node string) []*corev1.Pod {
	pods := slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool {
		return p.Spec.NodeName != node || !hasAddress(p)
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Status.PodIP, b.Status.PodIP) })
	return pods
}

func hasAddress(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return p.Status.PodIP != "" && !p.Spec.HostNetwork && !ended
}

// policiesOf returns the policies that select a pod for a direction.
func (s *State) policiesOf(pod *corev1.Pod, d networkingv1.PolicyType) []*networkingv1.NetworkPolicy {
	var selected []*networkingv1.NetworkPolicy
	for _, p := range s.Policies {
		if p.Namespace == pod.Namespace && slices.Contains(types(p), d) && matches(&p.Spec.PodSelector, pod.Labels) {
			selected = append(selected, p)
		}
	}
	slices.SortFunc(selected, func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) })
	return selected
}

// types returns the directions of a policy. The API server sets them in all policies.
func types(p *networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	if len(p.Spec.PolicyTypes) > 0 {
		return p.Spec.PolicyTypes
	}
	return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
}

// matches is false for a selector that is not valid, which the API server does not store.
func matches(selector *metav1.LabelSelector, set labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set)
}

// A permission is a rule of a policy, of either direction.
type permission struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func permissions(p *networkingv1.NetworkPolicy, d networkingv1.PolicyType) []permission {
	var all []permission
	if d == networkingv1.PolicyTypeEgress {
		for _, r := range p.Spec.Egress {
			all = append(all, permission{peers: r.To, ports: r.Ports})
		}
		return all
	}
	for _, r := range p.Spec.Ingress {
		all = append(all, permission{peers: r.From, ports: r.Ports})
	}
	return all
}

// chain returns the conditions of packets that a pod may receive or send.
func (s *State) chain(pod *corev1.Pod, policies []*networkingv1.NetworkPolicy, d networkingv1.PolicyType) []string {
	var rules []string
	for _, p := range policies {
		for _, permitted := range permissions(p, d) {
			if len(permitted.peers) == 0 {
				rules = append(rules, s.anyPeer(pod, permitted.ports, d)...)
			}
			for _, peer := range permitted.peers {
				if peer.IPBlock != nil {
					rules = append(rules, combine(block(peer.IPBlock, d), portsOf(permitted.ports, []*corev1.Pod{pod}))...)
					continue
				}
				rules = append(rules, s.podPeers(pod, p.Namespace, peer, permitted.ports, d)...)
			}
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// anyPeer returns conditions without an address. Ports with names of an egress rule are those of the pods that have them.
func (s *State) anyPeer(pod *corev1.Pod, ports []networkingv1.NetworkPolicyPort, d networkingv1.PolicyType) []string {
	if d == networkingv1.PolicyTypeEgress && slices.ContainsFunc(ports, isNamed) {
		return s.podPeers(pod, "", networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}, ports, d)
	}
	return combine("", portsOf(ports, []*corev1.Pod{pod}))
}

// podPeers returns conditions with the addresses of pods.
func (s *State) podPeers(
	pod *corev1.Pod, namespace string, peer networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
	d networkingv1.PolicyType,
) []string {
	var rules, addresses []string
	byPeer := d == networkingv1.PolicyTypeEgress && slices.ContainsFunc(ports, isNamed)
	for _, p := range s.Pods {
		if !hasAddress(p) || !s.selects(namespace, peer, p) {
			continue
		}
		if byPeer {
			rules = append(rules, combine("ip daddr "+p.Status.PodIP, portsOf(ports, []*corev1.Pod{p}))...)
		}
		addresses = append(addresses, p.Status.PodIP)
	}
	if byPeer || len(addresses) == 0 {
		return rules
	}
	slices.Sort(addresses)
	return combine("ip "+other(d)+" { "+strings.Join(addresses, ", ")+" }", portsOf(ports, []*corev1.Pod{pod}))
}

// selects reports whether a pod is a peer of a policy in a namespace.
func (s *State) selects(namespace string, peer networkingv1.NetworkPolicyPeer, pod *corev1.Pod) bool {
	if peer.NamespaceSelector != nil {
		if !matches(peer.NamespaceSelector, s.Namespaces[pod.Namespace]) {
			return false
		}
	} else if pod.Namespace != namespace {
		return false
	}
	return peer.PodSelector == nil || matches(peer.PodSelector, pod.Labels)
}

// block returns the condition of an IP block, or one that no packet meets for IPv6, which the network does not have.
func block(b *networkingv1.IPBlock, d networkingv1.PolicyType) string {
	prefix, err := netip.ParsePrefix(b.CIDR)
	if err != nil || !prefix.Addr().Is4() {
		return "ip " + other(d) + " 0.0.0.0"
	}
	rule := "ip " + other(d) + " " + prefix.Masked().String()
	if len(b.Except) > 0 {
		rule += " ip " + other(d) + " != { " + strings.Join(b.Except, ", ") + " }"
	}
	return rule
}

func isNamed(p networkingv1.NetworkPolicyPort) bool {
	return p.Port != nil && p.Port.Type == intstr.String
}

// portsOf returns conditions for ports, or one empty condition for all. Names are those of the containers of pods.
func portsOf(ports []networkingv1.NetworkPolicyPort, pods []*corev1.Pod) []string {
	if len(ports) == 0 {
		return []string{""}
	}
	var conditions []string
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		name := strings.ToLower(string(protocol))
		switch {
		case p.Port == nil:
			conditions = append(conditions, "meta l4proto "+name)
		case isNamed(p):
			for _, number := range numbers(pods, p.Port.StrVal, protocol) {
				conditions = append(conditions, fmt.Sprintf("%s dport %d", name, number))
			}
		case p.EndPort != nil:
			conditions = append(conditions, fmt.Sprintf("%s dport %d-%d", name, p.Port.IntVal, *p.EndPort))
		default:
			conditions = append(conditions, fmt.Sprintf("%s dport %d", name, p.Port.IntVal))
		}
	}
	return conditions
}

// numbers returns the ports with a name.
func numbers(pods []*corev1.Pod, name string, protocol corev1.Protocol) []int32 {
	var found []int32
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == name && cmp.Or(port.Protocol, corev1.ProtocolTCP) == protocol {
					found = append(found, port.ContainerPort)
				}
			}
		}
	}
	return found
}

// combine joins an address with each of the ports.
func combine(address string, ports []string) []string {
	rules := make([]string, len(ports))
	for i, port := range ports {
		rules[i] = strings.TrimSpace(address + " " + port)
		if rules[i] == "" {
			rules[i] = "meta nfproto ipv4"
		}
	}
	return rules
}
