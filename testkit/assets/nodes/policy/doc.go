// Package policy makes firewall rules of NetworkPolicies.
//
// The rules of a node filter packets that it forwards to its pods and from them. They do not apply to packets of the node
// itself, such as probes of the kubelet, as in other clusters. Addresses of Services have been translated by then. A pod
// that starts is reachable until the rules know it, for some milliseconds.
package policy
