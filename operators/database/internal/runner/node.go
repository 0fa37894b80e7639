//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nodeCount allows anti-affinity between pods. All nodes are this machine.
	nodeCount = 3
	// nodeKey is the label and taint key of the nodes of one namespace.
	nodeKey = "runner.homeostat.dev"
	// unsimulatedLabel excludes a node and its pods from testkit's simulated kubelet.
	unsimulatedLabel = "testkit.homeostat.dev/lost"
	// leaseSeconds is half of the grace period of a silent node.
	leaseSeconds = 20
)

func (r *Runner) nodeName(suffix string) string { return "runner-" + r.k.Namespace + "-" + suffix }

// redirectPods installs an admission policy that sends the pods of the namespace to the runner's nodes. It returns when the
// policy is in effect.
func (r *Runner) redirectPods() {
	const expression = `[
  has(object.spec.nodeSelector)
    ? JSONPatch{op: "add", path: "/spec/nodeSelector/" + jsonpatch.escapeKey("KEY"), value: "NAMESPACE"}
    : JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"KEY": "NAMESPACE"}},
  has(object.spec.tolerations)
    ? JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{key: "KEY", operator: "Exists"}}
    : JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "KEY", operator: "Exists"}]}
]`
	name := r.k.Namespace + "." + nodeKey
	r.k.Apply(&admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.k.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
						},
					},
				}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{
					Expression: strings.NewReplacer("KEY", nodeKey, "NAMESPACE", r.k.Namespace).Replace(expression),
				},
			}},
		},
	})
	r.k.Apply(&admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	})
	r.k.Wait("pods are sent to the runner's nodes", func(ctx context.Context) error {
		probe := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.k.Namespace, Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if err := r.k.Client.Create(ctx, probe, client.DryRunAll); err != nil || probe.Spec.NodeSelector[nodeKey] == "" {
			return errors.Join(err, errors.New("they are not yet"))
		}
		return nil
	})
}

// register creates the nodes and their leases as a kubelet does, and renews the leases in the background.
func (r *Runner) register(ctx context.Context) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	var leases []*coordinationv1.Lease
	for i := range nodeCount {
		name := r.nodeName(strconv.Itoa(i))
		now := metav1.Now()
		_, err := r.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
				nodeKey: r.k.Namespace, unsimulatedLabel: "true",
			}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: nodeKey, Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{
				Capacity: capacity, Allocatable: capacity,
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: gateway}},
				Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
					LastHeartbeatTime: now, LastTransitionTime: now,
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("registering a node: %w", err)
		}
		r.nodes = append(r.nodes, name)
		lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &name, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: new(metav1.NowMicro()),
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("registering a node: %w", err)
		}
		leases = append(leases, lease)
	}
	r.tasks.Go(func() { r.renew(ctx, leases) })
	return nil
}

// renew renews the leases until ctx ends.
func (r *Runner) renew(ctx context.Context, leases []*coordinationv1.Lease) {
	ticker := time.NewTicker(leaseSeconds * time.Second / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i, lease := range leases {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			renewed, err := r.client.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
			if err == nil {
				leases[i] = renewed
			} else if ctx.Err() == nil {
				r.t.Logf("renewing the lease of a node: %v", err)
			}
		}
	}
}

// unregister deletes the nodes and their leases.
func (r *Runner) unregister() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.k.Timeout)
	defer cancel()
	var errs []error
	for _, name := range r.nodes {
		errs = append(errs, r.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}),
			r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for i, err := range errs {
		if apierrors.IsNotFound(err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
