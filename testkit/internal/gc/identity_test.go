package gc_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A policy that forbids deletion except by the Kubernetes controllers permits the collector.
func TestAdmissionPolicyExceptions(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]string{"Collector": "generic-garbage-collector", "Namespaces": "namespace-controller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			owner := newConfigMap(t, ns, "owner")
			child := newConfigMap(t, ns, "protected", ownedBy(owner))
			here := map[string]string{corev1.LabelMetadataName: ns.Name}
			deletion := admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
				},
			}
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionregistrationv1.MatchResources{
						NamespaceSelector: &metav1.LabelSelector{MatchLabels: here},
						ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: deletion}},
					},
					Validations: []admissionregistrationv1.Validation{{Expression: "oldObject.metadata.name != 'protected' || " +
						"request.userInfo.username == 'system:serviceaccount:kube-system:" + who + "'"}},
				},
			}
			binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: policy.ObjectMeta,
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				},
			}
			for _, o := range []client.Object{policy, binding} {
				must(t, api.Create(t.Context(), o))
				t.Cleanup(func() { _ = api.Delete(t.Context(), o) })
			}
			eventually(t, func() string {
				if err := api.Delete(t.Context(), child, client.DryRunAll); err == nil {
					return "the policy is not in force"
				}
				return ""
			})
			if name == "Collector" {
				deleteObject(t, owner, background)
				eventually(t, gone(t, child))
			}
			must(t, api.Delete(t.Context(), ns))
			eventually(t, gone(t, ns, child))
		})
	}
}
