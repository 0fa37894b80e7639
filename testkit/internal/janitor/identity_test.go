package janitor_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A policy that lets nobody delete something but Kubernetes's own controllers lets the janitor.
func TestPoliciesMakeExceptions(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]string{"Collector": "generic-garbage-collector", "Namespaces": "namespace-controller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			owner := newConfigMap(t, ns, "owner")
			child := newConfigMap(t, ns, "protected", ownedBy(owner))
			here := map[string]string{corev1.LabelMetadataName: ns.Name}
			policy := &admissionv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: ns.Name},
				Spec: admissionv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionv1.MatchResources{
						NamespaceSelector: &metav1.LabelSelector{MatchLabels: here},
						ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
							Operations: []admissionv1.OperationType{admissionv1.Delete},
							Rule: admissionv1.Rule{
								APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
							},
						}}},
					},
					Validations: []admissionv1.Validation{{Expression: "oldObject.metadata.name != 'protected' || " +
						"request.userInfo.username == 'system:serviceaccount:kube-system:" + who + "'"}},
				},
			}
			binding := &admissionv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: policy.ObjectMeta,
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
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
